"""What every route passes, tried on the real application that tests of the API have."""

from tests.api.conftest import client, db, settings

__all__ = ["client", "db", "settings"]
