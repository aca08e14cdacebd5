"""Lists of experiments by when they finished, and by name."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_experiments_finished_at_id", "experiments", ["finished_at", "id"])
    op.create_index("ix_experiments_name_id", "experiments", ["name", "id"])


def downgrade() -> None:
    op.drop_index("ix_experiments_name_id", "experiments")
    op.drop_index("ix_experiments_finished_at_id", "experiments")
