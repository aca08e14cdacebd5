"""Exits with 0 if a worker on this host has been heard of, in the database, within a lease."""

import socket
import sys

from app.settings import Settings
from app.store.database import Database
from app.store.workers import list_workers


def main() -> None:
    """Entry point of the worker image's HEALTHCHECK."""
    settings = Settings()
    database = Database(settings.url)
    here = [worker for worker in list_workers(database) if worker.host == socket.gethostname()]
    database.dispose()
    sys.exit(not any(worker.silent_s <= settings.lease_s for worker in here))


if __name__ == "__main__":
    main()
