"""Experiments, their attempts, trials and events; workers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_QUEUED = sa.text("status = 'queued'")
_RUNNING = sa.text("status = 'running'")


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("retry_of", sa.Text()),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("request_sha256", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text()),
        sa.Column("lease_expires_at", sa.BigInteger()),
        sa.Column("heartbeat_at", sa.BigInteger()),
        sa.Column("cancel_requested_at", sa.BigInteger()),
        sa.Column("retry_on_loss", sa.Boolean(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("progress", sa.JSON()),
        sa.Column("verdict", sa.Text()),
        sa.Column("results", sa.JSON()),
        sa.Column("failure", sa.JSON()),
        sa.CheckConstraint(
            "(status = 'running' AND owner IS NOT NULL AND lease_expires_at IS NOT NULL)"
            " OR (status <> 'running' AND owner IS NULL AND lease_expires_at IS NULL)",
            name=op.f("ck_experiments_running_is_owned"),
        ),
        sa.CheckConstraint(
            "(status IN ('succeeded', 'failed', 'cancelled') AND finished_at IS NOT NULL)"
            " OR (status IN ('queued', 'running') AND finished_at IS NULL)",
            name=op.f("ck_experiments_terminal_is_finished"),
        ),
        sa.CheckConstraint(
            "attempt >= 0 AND (status <> 'running' OR attempt > 0)", name=op.f("ck_experiments_attempt")
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name=op.f("ck_experiments_status")
        ),
        sa.CheckConstraint(
            "(idempotency_key IS NULL) = (request_sha256 IS NULL)", name=op.f("ck_experiments_idempotent_request")
        ),
        sa.ForeignKeyConstraint(["retry_of"], ["experiments.id"], name=op.f("fk_experiments_retry_of_experiments")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_experiments_idempotency_key")),
    )
    op.create_index("ix_experiments_created_at_id", "experiments", ["created_at", "id"])
    op.create_index(
        "ix_experiments_queued",
        "experiments",
        [sa.literal_column("priority DESC"), "queued_at", "id"],
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
    op.create_index("ix_experiments_retry_of", "experiments", ["retry_of"])
    op.create_index(
        "ix_experiments_running", "experiments", ["lease_expires_at"], sqlite_where=_RUNNING, postgresql_where=_RUNNING
    )
    op.create_table(
        "trial_records",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.LargeBinary(), nullable=False),
        sa.Column("timeline", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial_records")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("experiment_id", sa.Text()),
        sa.Column("info", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "attempts",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("outcome", sa.Text()),
        sa.Column("failure", sa.JSON()),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_attempts_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("experiment_id", "attempt", name=op.f("pk_attempts")),
    )
    op.create_table(
        "events",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("from_status", sa.Text()),
        sa.Column("to_status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON()),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_events_experiment_id_experiments"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "experiment_labels",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_experiment_labels_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("experiment_id", "key", name=op.f("pk_experiment_labels")),
    )
    op.create_index("ix_experiment_labels_key_value", "experiment_labels", ["key", "value", "experiment_id"])
    op.create_table(
        "arms",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("resolved", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id", "attempt"],
            ["attempts.experiment_id", "attempts.attempt"],
            name=op.f("fk_arms_experiment_id_attempt_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("experiment_id", "attempt", "arm", name=op.f("pk_arms")),
    )
    op.create_table(
        "trials",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("fresh_engine", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("missing", sa.JSON(), nullable=False),
        sa.Column("work", sa.JSON()),
        sa.Column("output_hashes", sa.LargeBinary()),
        sa.Column("harness", sa.JSON()),
        sa.Column("conditions", sa.JSON()),
        sa.Column("error", sa.Text()),
        sa.Column("records_id", _SERIAL),
        sa.CheckConstraint("phase IN ('warmup', 'measured')", name=op.f("ck_trials_phase")),
        sa.CheckConstraint("state IN ('succeeded', 'failed')", name=op.f("ck_trials_state")),
        sa.CheckConstraint("(work IS NULL) = (output_hashes IS NULL)", name=op.f("ck_trials_work_has_hashes")),
        sa.ForeignKeyConstraint(
            ["experiment_id", "attempt"],
            ["attempts.experiment_id", "attempts.attempt"],
            name=op.f("fk_trials_experiment_id_attempt_attempts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["records_id"], ["trial_records.id"], name=op.f("fk_trials_records_id_trial_records"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint(
            "experiment_id",
            "attempt",
            "phase",
            "block",
            "arm",
            name=op.f("uq_trials_experiment_id_attempt_phase_block_arm"),
        ),
    )
    op.create_index("ix_trials_records_id", "trials", ["records_id"])


def downgrade() -> None:
    for table in (
        "trials",
        "trial_records",
        "arms",
        "events",
        "attempts",
        "experiment_labels",
        "experiments",
        "workers",
    ):
        op.drop_table(table)
