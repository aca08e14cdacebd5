"""python -m app.server: the API process. `--fd N` takes over a listening socket."""

import argparse
import gc
import os
import resource
import socket
import sys

import uvicorn

from app.errors import Conflict
from app.logging import configure_logging
from app.main import create_app
from app.protocol import GuardedProtocol
from app.service.access import require_tokens
from app.settings import Settings
from app.store.database import Database
from app.supervisor import listen

GRACE_S = 5


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m app.server", description=__doc__)
    parser.add_argument("--fd", type=int, help="a listening socket; host and port of the settings if absent")
    parser.add_argument("--niceness", type=int, default=0, help="how far to give way to others, once it serves")
    given = parser.parse_args()
    fd: int | None = given.fd
    settings = Settings()
    configure_logging(settings)
    app = create_app(settings)
    if fd is None:  # else whoever holds the socket has seen to it
        _see_that_it_may_listen(app.state.database, settings)
    listener = listen(settings.host, settings.port) if fd is None else socket.socket(fileno=fd)
    gc.collect()
    gc.freeze()  # what has been imported stays: a full collection that walks all of it takes a tenth of a second
    os.nice(given.niceness)  # threads that start later have it too
    _take_every_descriptor()
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        log_config=None,
        access_log=False,
        ws="none",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _take_every_descriptor() -> None:
    """A connection is one: the usual limit of 1,024 is for programs that have few."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _see_that_it_may_listen(database: Database, settings: Settings) -> None:
    try:
        require_tokens(database, settings)
    except Conflict as error:
        sys.exit(f"error: {error.detail}")


if __name__ == "__main__":
    main()
