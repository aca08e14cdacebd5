"""The schema; migrations/ builds it."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from app.store.clock import Moment

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class SafeText(TypeDecorator[str]):
    """Text of any origin: Postgres refuses NUL, and neither database takes half a surrogate pair."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Replace what cannot be stored."""
        return None if value is None else value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


_Json = JSON(none_as_null=True)
_Serial = BigInteger().with_variant(Integer, "sqlite")

experiments = Table(
    "experiments",
    metadata,
    Column("id", SafeText, primary_key=True),
    Column("version", BigInteger, nullable=False),  # grows with every change
    Column("name", SafeText, nullable=False),
    Column("labels", _Json, nullable=False),
    Column("model", SafeText, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("spec", _Json, nullable=False),  # as submitted
    Column("retry_of", SafeText, ForeignKey("experiments.id")),
    Column("idempotency_key", SafeText, unique=True),
    Column("request_sha256", SafeText),
    Column("status", SafeText, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("queued_at", Moment, nullable=False),  # place in the queue
    Column("started_at", Moment),  # of the last attempt
    Column("finished_at", Moment),
    Column("attempt", Integer, nullable=False),  # 0 until the first claim
    Column("owner", SafeText),
    Column("lease_expires_at", Moment),
    Column("heartbeat_at", Moment),
    Column("cancel_requested_at", Moment),
    Column("retry_on_loss", Boolean, nullable=False),
    Column("losses", Integer, nullable=False),  # attempts whose worker was lost
    Column("progress", _Json),
    Column("verdict", SafeText),  # those of the primary comparisons, the worst first, with blanks between them
    Column("results", _Json),
    Column("failure", _Json),
    Column("submitted_by", SafeText, nullable=False, server_default="anonymous"),  # a token's name
    CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"),
    CheckConstraint(
        "(status = 'running' AND owner IS NOT NULL AND lease_expires_at IS NOT NULL)"
        " OR (status <> 'running' AND owner IS NULL AND lease_expires_at IS NULL)",
        name="running_is_owned",
    ),
    CheckConstraint(
        "(status IN ('succeeded', 'failed', 'cancelled') AND finished_at IS NOT NULL)"
        " OR (status IN ('queued', 'running') AND finished_at IS NULL)",
        name="terminal_is_finished",
    ),
    CheckConstraint("attempt >= 0 AND (status <> 'running' OR attempt > 0)", name="attempt"),
    CheckConstraint("(idempotency_key IS NULL) = (request_sha256 IS NULL)", name="idempotent_request"),
    Index("ix_experiments_created_at_id", "created_at", "id"),
    Index("ix_experiments_finished_at_id", "finished_at", "id"),
    Index("ix_experiments_name_id", "name", "id"),
    Index("ix_experiments_retry_of", "retry_of"),
)

# The claim reads its first row from this index, however long the queue is.
Index(
    "ix_experiments_queued",
    experiments.c.priority.desc(),
    experiments.c.queued_at,
    experiments.c.id,
    sqlite_where=text("status = 'queued'"),
    postgresql_where=text("status = 'queued'"),
)
Index(
    "ix_experiments_running",
    experiments.c.lease_expires_at,
    sqlite_where=text("status = 'running'"),
    postgresql_where=text("status = 'running'"),
)

experiment_labels = Table(
    "experiment_labels",
    metadata,
    Column("experiment_id", SafeText, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True),
    Column("key", SafeText, primary_key=True),
    Column("value", SafeText, nullable=False),
    Index("ix_experiment_labels_key_value", "key", "value", "experiment_id"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("experiment_id", SafeText, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("owner", SafeText, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("outcome", SafeText),  # the experiment's status after it
    Column("failure", _Json),
    Column("workload_sha256", SafeText),  # of prompts that are not in the spec
    Column("continuation", _Json),  # what it took over from earlier ones
)

events = Table(
    "events",
    metadata,
    Column("experiment_id", SafeText, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),  # from 1, without gaps
    Column("at", Moment, nullable=False),
    Column("from_status", SafeText),
    Column("to_status", SafeText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", SafeText),
    Column("reason", SafeText, nullable=False),
    Column("detail", _Json),
    Column("actor", SafeText),  # who asked for it, where somebody did
    Column("source", SafeText),  # and from which address
)

arms = Table(
    "arms",
    metadata,
    Column("experiment_id", SafeText, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("arm", SafeText, primary_key=True),
    Column("resolved", _Json, nullable=False),
    ForeignKeyConstraint(
        ["experiment_id", "attempt"], ["attempts.experiment_id", "attempts.attempt"], ondelete="CASCADE"
    ),
)

trial_records = Table(
    "trial_records",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("stored_at", Moment, nullable=False),
    Column("records", LargeBinary, nullable=False),  # Parquet
    Column("timeline", LargeBinary, nullable=False),  # Parquet
)

trials = Table(
    "trials",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("experiment_id", SafeText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("phase", SafeText, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("block", Integer, nullable=False),
    Column("arm", SafeText, nullable=False),
    Column("position", Integer, nullable=False),
    Column("fresh_engine", Boolean, nullable=False),
    Column("start", Integer, nullable=False, server_default="0"),
    Column("state", SafeText, nullable=False),
    Column("started_at", Double, nullable=False),  # seconds since the epoch, the worker's clock
    Column("wall_s", Double, nullable=False),
    Column("metrics", _Json, nullable=False),
    Column("missing", _Json, nullable=False),
    Column("work", _Json),
    Column("output_hashes", LargeBinary),
    Column("harness", _Json),
    Column("conditions", _Json),
    Column("error", SafeText),
    # Shared by the attempts that take a finished block over; null once an operator has deleted it.
    Column("records_id", _Serial, ForeignKey("trial_records.id", ondelete="SET NULL")),
    ForeignKeyConstraint(
        ["experiment_id", "attempt"], ["attempts.experiment_id", "attempts.attempt"], ondelete="CASCADE"
    ),
    UniqueConstraint("experiment_id", "attempt", "phase", "block", "arm"),
    CheckConstraint("phase IN ('warmup', 'measured')", name="phase"),
    CheckConstraint("state IN ('succeeded', 'failed')", name="state"),
    CheckConstraint("(work IS NULL) = (output_hashes IS NULL)", name="work_has_hashes"),
    Index("ix_trials_records_id", "records_id"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", SafeText, primary_key=True),
    Column("host", SafeText, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("last_seen_at", Moment, nullable=False),
    Column("experiment_id", SafeText),  # what it runs now
    Column("info", _Json, nullable=False),
)


def is_status(status: str) -> ColumnElement[bool]:
    """Whether an experiment is in this status."""
    # Spelled out in the SQL: with a parameter in its place SQLite could not use the partial index.
    return experiments.c.status == literal_column(f"'{status}'")


def storable(number: int) -> int:
    """The nearest number a column of integers can hold; a caller may ask for any, and Postgres refuses larger ones."""
    return max(-(2**31), min(number, 2**31 - 1))


noise = Table(
    "noise",
    metadata,
    # The verdict of an A/A experiment on its arm; it outlives the experiment's records.
    Column("experiment_id", SafeText, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True),
    Column("fingerprint", Text, nullable=False, index=True),
    Column("settings", Text, nullable=False, index=True),
    Column("sd_pct", Double, nullable=False),
    Column("change_pct", Double, nullable=False),
    Column("blocks", Integer, nullable=False),
    Column("starts", _Json),  # what every start gave, by metric; null where an earlier version kept it
    Column("kept_at", Moment, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", SafeText, primary_key=True),  # never given again: it stands in histories
    Column("sha256", SafeText, nullable=False, unique=True),
    Column("scope", SafeText, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    CheckConstraint("scope IN ('read', 'submit', 'admin')", name="scope"),
)

# Browsers that have logged in with a token.
sessions = Table(
    "sessions",
    metadata,
    Column("sha256", SafeText, primary_key=True),
    Column("token", SafeText, ForeignKey("tokens.name", ondelete="CASCADE"), nullable=False),
    Column("expires_at", Moment, nullable=False),
)

token_events = Table(
    "token_events",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("token", SafeText, nullable=False),
    Column("action", SafeText, nullable=False),
    Column("actor", SafeText, nullable=False),
    Column("source", SafeText, nullable=False),
)
