"""Times: microseconds since the epoch in the database, aware UTC datetimes outside.

Leases are compared with the database's clock on both sides; no worker's clock takes part.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Moment(TypeDecorator[datetime]):
    """A point in time."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """To microseconds since the epoch."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To UTC."""
        return None if value is None else _EPOCH + value * _MICROSECOND


class now_us(FunctionElement[int]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock when the statement began, microseconds since the epoch."""

    type = BigInteger()
    inherit_cache = True
    name = "now_us"


@compiles(now_us, "postgresql")
def _postgres(element: now_us, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)"


@compiles(now_us, "sqlite")
def _sqlite(element: now_us, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    # Milliseconds: 'subsec' is NULL before SQLite 3.42, and julianday() rounds. 'now' is one value per statement.
    return (
        "(CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)"
    )


def microseconds(seconds: float) -> int:
    """A duration, as the database counts it."""
    return round(seconds * 1_000_000)
