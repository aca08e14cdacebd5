"""Which start of the engines a trial ran on."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("start", sa.Integer(), nullable=False, server_default="0"))
    # Until now an engine was called fresh only where every trial had a start of its own.
    op.execute(
        "UPDATE trials SET start = block WHERE phase = 'measured' AND EXISTS (SELECT 1 FROM trials AS other "
        "WHERE other.experiment_id = trials.experiment_id AND other.attempt = trials.attempt AND other.fresh_engine)"
    )


def downgrade() -> None:
    op.drop_column("trials", "start")
