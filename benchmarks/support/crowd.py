"""Many experiments at once."""

from sqlalchemy import insert, text

from app.spec.experiment import Experiment
from app.store.database import Database
from app.store.submission import build_row
from app.store.tables import experiments

SIMULATED = Experiment.model_validate(
    {
        "model": {"preset": "tiny-qwen2"},
        "arms": [{"name": "sync", "profile": "simulated"}, {"name": "async", "profile": "simulated"}],
    }
)


def crowd_in(db: Database, count: int) -> None:
    """Queue this many experiments within a second or two, of varied priority and age."""
    now = db.now()
    row = build_row(SIMULATED, None, None) | {"created_at": now, "queued_at": now}
    different = {
        "id": "lpad(to_hex(n), 16, '0')" if db.is_postgres else "printf('%016x', n)",
        "priority": "n % 7",
        "created_at": "created_at + n",
        "queued_at": "queued_at + n",
    }
    columns = [column.name for column in experiments.c]
    values = [different.get(name, name) for name in columns]
    copies = text(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count) "  # noqa: S608
        f"INSERT INTO experiments ({', '.join(columns)}) "
        f"SELECT {', '.join(values)} FROM experiments, numbers WHERE id = :first"
    )
    with db.write() as connection:
        connection.execute(insert(experiments).values(row))
        if count > 1:
            connection.execute(copies, {"count": count - 1, "first": row["id"]})
        connection.execute(text("ANALYZE"))
