"""What an attempt took over from earlier ones, and the workload it drew."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("workload_sha256", sa.Text()))
    op.add_column("attempts", sa.Column("continuation", sa.JSON()))


def downgrade() -> None:
    op.drop_column("attempts", "continuation")
    op.drop_column("attempts", "workload_sha256")
