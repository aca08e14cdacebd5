"""Any arms of any experiments, side by side."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.errors import NotFound, UnreadableSpec
from app.format import NOTHING, number, spread
from app.http.basics import Db
from app.judge.fingerprint import EnvironmentReport
from app.judge.results import ArmReport
from app.measure.metrics import METRICS, Better, Kind
from app.pages.shell import PageRouter, page
from app.pages.subject import Subject, load
from app.pages.words import shortened
from app.store import catalogue
from app.store.database import Database

router = PageRouter()
MOST = 12  # columns
MOST_NAMED = 64  # each is read from the database
_STATISTICS = ("p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Column:
    """An arm of an experiment."""

    subject: Subject
    arm: ArmReport

    @property
    def key(self) -> str:
        """As the address names it."""
        return f"{self.subject.item.id}:{self.arm.name}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, and how it relates to the first column's."""

    value: str
    spread: str
    change_pct: float | None


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric over all columns."""

    key: str
    unit: str
    better: Better
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that is not the same for all experiments."""

    what: str
    values: tuple[str, ...]


@router.get("/compare")
def compare(
    request: Request,
    db: Db,
    arm: Annotated[list[str], Query(max_length=MOST_NAMED)] = [],  # noqa: B006 - FastAPI reads it, nobody changes it
    experiment: Annotated[list[str], Query(max_length=MOST_NAMED)] = [],  # noqa: B006
) -> Response:
    """Columns are arms: those named `id:arm`, and all of every experiment named."""
    wanted = [*arm, *experiment]
    subjects, unknown = _subjects(db, wanted)
    columns = list(_columns(subjects, arm, experiment))
    return page(
        request,
        "compare.html",
        columns=columns[:MOST],
        left_out=max(0, len(columns) - MOST),
        unknown=unknown,
        rows=list(_rows(columns[:MOST])),
        mismatches=mismatches(list(subjects.values())),
        fingerprints=_fingerprints(columns[:MOST]),
        recent=catalogue.page(db, limit=20).items,
        chosen={column.key for column in columns},
        experiments=list(subjects.values()),
    )


def _subjects(db: Database, wanted: Sequence[str]) -> tuple[dict[str, Subject], list[str]]:
    found: dict[str, Subject] = {}
    unknown: list[str] = []
    for one in dict.fromkeys(key.partition(":")[0].strip() for key in wanted):
        try:
            found[one] = load(db, one)
        except (NotFound, UnreadableSpec) as error:
            if one:
                unknown.append(error.detail)
    return found, unknown


def _columns(subjects: dict[str, Subject], arms: Sequence[str], whole: Sequence[str]) -> Iterator[Column]:
    named = [*arms]
    for one in whole:
        if one in subjects:
            named += [f"{one}:{report.name}" for report in subjects[one].results.arms]
    for key in dict.fromkeys(named):
        experiment_id, _, name = key.partition(":")
        subject = subjects.get(experiment_id)
        report = next((one for one in subject.results.arms if one.name == name), None) if subject else None
        if subject is not None and report is not None:
            yield Column(subject, report)


def _rows(columns: Sequence[Column]) -> Iterator[MetricRow]:
    for key, metric in METRICS.items():
        names = ("mean",) if metric.kind is Kind.SCALAR else _STATISTICS
        for name in names:
            values = [getattr(column.arm.metric(key), name, None) for column in columns]
            if any(value is not None for value in values):
                spreads = [column.arm.metric(key).std if name == "mean" else None for column in columns]
                cells = tuple(_cell(value, spread, values[0]) for value, spread in zip(values, spreads, strict=True))
                full = key if metric.kind is Kind.SCALAR else f"{key}.{name}"
                yield MetricRow(full, metric.unit, metric.better, cells)


def _cell(value: float | None, deviation: float | None, first: float | None) -> Cell:
    change = 100 * (value / first - 1) if value is not None and first else None
    return Cell(number(value), spread(deviation), change)


def _fingerprints(columns: Sequence[Column]) -> list[str]:
    found = {column.subject.item.id: column.subject.results.environment for column in columns}
    return list(dict.fromkeys(_fingerprint(one) for one in found.values()))


def _fingerprint(environment: EnvironmentReport | None) -> str:
    return environment.fingerprint if environment is not None else "unknown"


def mismatches(subjects: Sequence[Subject]) -> list[Mismatch]:
    """What differs between the experiments the columns come from, beside the arms themselves."""
    facts = [dict(_facts(subject)) for subject in subjects]
    keys = dict.fromkeys(key for one in facts for key in one)
    return [
        Mismatch(key, values) for key in keys if len(set(values := tuple(one.get(key, NOTHING) for one in facts))) > 1
    ]


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    environment, spec = subject.results.environment, subject.row.spec
    yield "model", subject.item.model
    yield "simulated", "yes" if subject.item.simulated else "no"
    yield from _flat("workload", spec.workload.model_dump(mode="json"))
    yield "plan.seed", str(spec.plan.seed)
    if environment is not None:
        for key, fact in environment.hardware.items():
            yield f"hardware.{key}", _short(fact)
        for key, version in environment.versions.items():
            yield f"versions.{key}", version


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for below, one in value.items():
            yield from _flat(f"{key}.{below}", one)
    else:
        yield key, shortened(_short(value), 60)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
