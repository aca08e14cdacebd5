"""What A/A experiments found of the noise."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "noise",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("sd_pct", sa.Double(), nullable=False),
        sa.Column("change_pct", sa.Double(), nullable=False),
        sa.Column("blocks", sa.Integer(), nullable=False),
        sa.Column("kept_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_noise_experiment_id_experiments"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment_id", name=op.f("pk_noise")),
    )
    for column in ("fingerprint", "settings"):
        op.create_index(op.f(f"ix_noise_{column}"), "noise", [column])


def downgrade() -> None:
    op.drop_table("noise")
