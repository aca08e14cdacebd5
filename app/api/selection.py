"""Rows of measured trials, a page, a stream or a file at a time: never all of them in memory."""

import base64
import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from starlette.responses import Response, StreamingResponse

from app.errors import FieldError, InvalidInput
from app.measure.metrics import TrialSummary
from app.spec.plan import Phase
from app.store import trials
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.trials import StoredTrial

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Iterable[tuple[StoredTrial, "pa.Table"]]
Read = Callable[..., Tables]
_CHUNK = 1 << 16


class Download(StrEnum):
    """Formats that hold every row."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Selection:
    """Trials of one attempt: all, one arm's, or one."""

    experiment: ExperimentRow
    arm: str | None
    slot: int | None

    def trials(self, db: Database) -> list[TrialSummary]:
        """Measured trials that ran, in order; InvalidInput if the selection names what there cannot be."""
        spec = self.experiment.spec
        names = [arm.name for arm in spec.arms]
        if self.arm is not None and self.arm not in names:
            raise InvalidInput.of((FieldError("/arm", f"no arm is called {self.arm!r}; there are {', '.join(names)}"),))
        planned = spec.plan.blocks * len(names)
        if self.slot is not None and self.slot >= planned:
            raise InvalidInput.of((FieldError("/trial", f"the trials are 0 to {planned - 1}"),))
        item = self.experiment.item
        return [
            trial
            for trial in trials.trials_of(db, item.id, item.attempt)
            if trial.planned.phase is Phase.MEASURED
            and self.arm in (None, trial.planned.arm)
            and self.slot in (None, trial.planned.slot)
        ]

    def tables(self, db: Database, read: Read, slot: int | None = None) -> Tables:
        """Their rows, a trial at a time."""
        item = self.experiment.item
        return read(db, item.id, self.arm, self.slot if slot is None else slot, attempt=item.attempt)


def page(
    db: Database, selection: Selection, read: Read, cursor: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Up to ``limit`` rows behind a cursor, and the next cursor."""
    slots = [trial.planned.slot for trial in selection.trials(db)]
    first_slot, skip = (0, 0) if cursor is None else _decoded(cursor)
    found: list[dict[str, Any]] = []
    for slot in (slot for slot in slots if slot >= first_slot):
        for trial, table in selection.tables(db, read, slot):
            start = skip if slot == first_slot else 0
            rows = table.slice(start, limit - len(found))
            found += _rows(trial, rows)
            if start + len(rows) < len(table):
                return found, _encoded(slot, start + len(rows))
        if len(found) == limit and slot != slots[-1]:
            return found, _encoded(slot + 1, 0)
    return found, None


def download(db: Database, selection: Selection, kind: Download) -> Response:
    """Every request record, as a file."""
    selection.trials(db)  # is refused before the first byte is sent
    tables = selection.tables(db, trials.records_of)
    headers = {"Content-Disposition": f'attachment; filename="{selection.experiment.item.id}-requests.{kind}"'}
    match kind:
        case Download.NDJSON:
            return StreamingResponse(_ndjson(tables), media_type="application/x-ndjson", headers=headers)
        case Download.CSV:
            return StreamingResponse(_csv(tables), media_type="text/csv; charset=utf-8", headers=headers)
        case Download.PARQUET:
            return _parquet(tables, headers)
        case _:
            assert_never(kind)


def _ndjson(tables: Tables) -> Iterator[str]:
    for trial, table in tables:
        for rows in _batches(trial, table):
            yield "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def _csv(tables: Tables) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, _schema().names, lineterminator="\n")
    writer.writeheader()
    yield text.getvalue()
    for trial, table in tables:
        for rows in _batches(trial, table):
            text.seek(0)
            text.truncate()
            writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
            yield text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value


def _parquet(tables: Tables, headers: dict[str, str]) -> Response:
    import pyarrow.parquet as pq

    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the response has been sent
    try:
        with pq.ParquetWriter(file, _schema(), compression="zstd") as writer:
            for trial, table in tables:
                writer.write_table(_with_trial(trial, table))
    except BaseException:
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    return StreamingResponse(
        _chunks(file), media_type="application/vnd.apache.parquet", headers=headers | {"Content-Length": str(size)}
    )


def _chunks(file: Any) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _trial_columns(trial: StoredTrial) -> dict[str, Any]:
    planned = trial.planned
    return {"attempt": trial.attempt, "trial": planned.slot, "block": planned.block, "arm": planned.arm}


def _batches(trial: StoredTrial, table: "pa.Table") -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(table), 1000):
        yield _rows(trial, table.slice(start, 1000))


def _rows(trial: StoredTrial, table: "pa.Table") -> list[dict[str, Any]]:
    known = _trial_columns(trial)
    return [known | row for row in table.to_pylist()]


def _schema() -> "pa.Schema":
    import pyarrow as pa

    from app.store.parquet import RECORD_SCHEMA

    kinds = {"attempt": pa.int32(), "trial": pa.int32(), "block": pa.int32(), "arm": pa.string()}
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in kinds.items()), *RECORD_SCHEMA])


def _with_trial(trial: StoredTrial, table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    columns = {name: [value] * len(table) for name, value in _trial_columns(trial).items()}
    return pa.table(columns | {name: table[name] for name in table.column_names}, schema=_schema())


def _encoded(slot: int, row: int) -> str:
    return base64.urlsafe_b64encode(f"{slot}:{row}".encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[int, int]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        slot, row = (int(part) for part in text.split(":") if part.isdecimal())
    except ValueError:
        raise InvalidInput.of((FieldError("/cursor", "not a cursor; use next_cursor of the page before"),)) from None
    return slot, row
