"""Who may do what, and who has done it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.CheckConstraint("scope IN ('read', 'submit', 'admin')", name=op.f("ck_tokens_scope")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["tokens.name"], name=op.f("fk_sessions_token_tokens"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_sessions")),
    )
    op.create_table(
        "token_events",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_events")),
    )
    op.add_column("experiments", sa.Column("submitted_by", sa.Text(), nullable=False, server_default="anonymous"))
    op.add_column("events", sa.Column("actor", sa.Text()))
    op.add_column("events", sa.Column("source", sa.Text()))


def downgrade() -> None:
    op.drop_column("events", "source")
    op.drop_column("events", "actor")
    op.drop_column("experiments", "submitted_by")
    op.drop_table("token_events")
    op.drop_table("sessions")
    op.drop_table("tokens")
