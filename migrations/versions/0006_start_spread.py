"""What every start of an A/A experiment gave."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("noise", sa.Column("starts", sa.JSON()))
    # The noise of arms that were not equal was kept too.
    op.execute("DELETE FROM noise WHERE experiment_id IN (SELECT id FROM experiments WHERE verdict = 'confounded')")


def downgrade() -> None:
    op.drop_column("noise", "starts")
