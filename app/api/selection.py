"""Rows of measured trials: which of them, and a page of them; never all of them in memory."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.errors import FieldError, InvalidInput
from app.format import listing, quoted
from app.http.basics import answer, answer_unchanged, make_etag
from app.measure.metrics import TrialSummary
from app.spec.plan import Phase
from app.store import experiments, trials
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId
from app.store.trials import StoredTrial

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Iterable[tuple[StoredTrial, "pa.Table"]]
Read = Callable[..., Tables]
Write = Callable[[Database, "Selection"], Response]


class Row(BaseModel):
    """Which trial a row is of."""

    attempt: int = Field(description="The attempt.", examples=[1])
    trial: int = Field(description="Slot of the trial, from 0.", examples=[3])
    block: int = Field(description="Its block, from 0.", examples=[1])
    arm: str = Field(description="Its arm.", examples=["async"])


class RowParameters(BaseModel):
    """Which rows."""

    model_config = ConfigDict(extra="forbid")

    arm: str | None = Field(None, max_length=300, description="Only this arm.", examples=["async"])
    trial: int | None = Field(None, ge=0, description="Only this trial, by its slot.", examples=[3])
    cursor: str | None = Field(None, max_length=300, description="`next_cursor` of the page before (`json` only).")
    limit: int = Field(1000, ge=1, le=10_000, description="Most rows of a page (`json` only).", examples=[1000])


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
            said = f"no arm is called {quoted(self.arm)}; there are {listing(names)}"
            raise InvalidInput.of((FieldError("/arm", said),))
        planned = spec.plan.blocks * len(names)
        if self.slot is not None and self.slot >= planned:
            raise InvalidInput.of((FieldError("/trial", f"the trials are 0 to {planned - 1}"),))
        item = self.experiment.item
        return [
            trial
            for trial in trials.read_trials(db, item.id, item.attempt)
            if trial.planned.phase is Phase.MEASURED
            and self.arm in (None, trial.planned.arm)
            and self.slot in (None, trial.planned.slot)
        ]

    def tables(self, db: Database, read: Read, slot: int | None = None) -> Tables:
        """Their rows, a trial at a time."""
        item = self.experiment.item
        return read(db, item.id, self.arm, self.slot if slot is None else slot, attempt=item.attempt)


def answer_rows(
    request: Request, db: Database, experiment_id: str, parameters: RowParameters, *, read: Read, write: Write | None
) -> Response:
    """The rows that the parameters name, all of them as `write` does or a page as JSON; 304 if the client has them.

    What there cannot be is refused before the first byte is sent.
    """
    row = experiments.get(db, ExperimentId(experiment_id))
    etag = make_etag(type(parameters).__name__, experiment_id, row.etag, parameters.model_dump_json())
    if (same := answer_unchanged(request, etag)) is not None:
        return same
    selection = Selection(row, parameters.arm, parameters.trial)
    chosen = selection.trials(db)
    if write is not None:
        response = write(db, selection)
        response.headers["ETag"] = etag
        return response
    slots = [trial.planned.slot for trial in chosen]
    found, after = _read_page(db, selection, slots, read, parameters)
    return answer(request, {"items": found, "next_cursor": after}, etag)


def name_file(name: str) -> dict[str, str]:
    """The header by which a browser keeps an answer as a file."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _read_page(
    db: Database, selection: Selection, slots: list[int], read: Read, parameters: RowParameters
) -> tuple[list[dict[str, Any]], str | None]:
    """As many rows behind a cursor as are asked for, and the next cursor."""
    first_slot, skip = (0, 0) if parameters.cursor is None else _decode_cursor(parameters.cursor)
    found: list[dict[str, Any]] = []
    for slot in (slot for slot in slots if slot >= first_slot):
        for trial, table in selection.tables(db, read, slot):
            start = skip if slot == first_slot else 0
            rows = table.slice(start, parameters.limit - len(found))
            found += list_rows(trial, rows)
            if start + len(rows) < len(table):
                return found, _encode_cursor(slot, start + len(rows))
        if len(found) == parameters.limit and slot != slots[-1]:
            return found, _encode_cursor(slot + 1, 0)
    return found, None


def list_rows(trial: StoredTrial, table: "pa.Table") -> list[dict[str, Any]]:
    """The rows of one trial, each with what names the trial."""
    known = name_trial(trial)
    return [known | row for row in table.to_pylist()]


def name_trial(trial: StoredTrial) -> dict[str, Any]:
    """What says of a row which trial it is of."""
    planned = trial.planned
    return {"attempt": trial.attempt, "trial": planned.slot, "block": planned.block, "arm": planned.arm}


def _encode_cursor(slot: int, row: int) -> str:
    return base64.urlsafe_b64encode(f"{slot}:{row}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[int, int]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        slot, row = (int(part) for part in text.split(":") if part.isdecimal())
    except ValueError:
        raise InvalidInput.of((FieldError("/cursor", "not a cursor; use next_cursor of the page before"),)) from None
    return slot, row
