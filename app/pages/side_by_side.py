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
from app.judge.results import ArmReport
from app.measure.metrics import METRICS, Better, Kind
from app.pages.shell import PageRouter, render_page
from app.pages.subject import Subject, load
from app.pages.words import shorten
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
    subjects, unknown = load_subjects(db, wanted)
    columns = list(list_columns(subjects, arm, experiment))
    return render_page(
        request,
        "compare.html",
        columns=columns[:MOST],
        left_out=max(0, len(columns) - MOST),
        unknown=unknown,
        rows=list(list_rows(columns[:MOST])),
        mismatches=list_mismatches(list(subjects.values())),
        fingerprints=list_fingerprints(columns[:MOST]),
        recent=catalogue.page(db, limit=20).items,
        chosen={column.key for column in columns},
        experiments=list(subjects.values()),
    )


def load_subjects(db: Database, wanted: Sequence[str]) -> tuple[dict[str, Subject], list[str]]:
    """Experiments that are there, by their ids, and what is wrong with the others."""
    found: dict[str, Subject] = {}
    unknown: list[str] = []
    for one in dict.fromkeys(key.partition(":")[0].strip() for key in wanted):
        try:
            found[one] = load(db, one)
        except (NotFound, UnreadableSpec) as error:
            if one:
                unknown.append(error.detail)
    return found, unknown


def list_columns(subjects: dict[str, Subject], arms: Sequence[str], whole: Sequence[str]) -> Iterator[Column]:
    """The arms that are named, and all arms of whole experiments, each once."""
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


def list_rows(columns: Sequence[Column]) -> Iterator[MetricRow]:
    """Every metric that any column has."""
    for key, metric in METRICS.items():
        names = ("mean",) if metric.kind is Kind.SCALAR else _STATISTICS
        for name in names:
            values = [getattr(column.arm.metric(key), name, None) for column in columns]
            if any(value is not None for value in values):
                deviations = [column.arm.metric(key).std if name == "mean" else None for column in columns]
                cells = tuple(
                    Cell(number(value), spread(deviation), compute_change(value, values[0]))
                    for value, deviation in zip(values, deviations, strict=True)
                )
                full = key if metric.kind is Kind.SCALAR else f"{key}.{name}"
                yield MetricRow(full, metric.unit, metric.better, cells)


def compute_change(value: float | None, first: float | None) -> float | None:
    """From the first column's value, in percent; None where either is missing, or the first is 0."""
    return 100 * (value / first - 1) if value is not None and first else None


def list_fingerprints(columns: Sequence[Column]) -> list[str]:
    """Of the columns' environments, each once."""
    found = [column.subject.results.environment for column in columns]
    return list(dict.fromkeys("unknown" if one is None else one.fingerprint for one in found))


def list_mismatches(subjects: Sequence[Subject]) -> list[Mismatch]:
    """What differs between the experiments the columns come from, beside the arms themselves."""
    facts = [dict(list_facts(subject)) for subject in subjects]
    keys = dict.fromkeys(key for one in facts for key in one)
    return [
        Mismatch(key, values) for key in keys if len(set(values := tuple(one.get(key, NOTHING) for one in facts))) > 1
    ]


def list_facts(subject: Subject) -> Iterator[tuple[str, str]]:
    """What an experiment was made of and ran on, as names and values."""
    environment, spec = subject.results.environment, subject.row.spec
    yield "model", subject.item.model
    yield "simulated", "yes" if subject.item.simulated else "no"
    yield from _flatten("workload", spec.workload.model_dump(mode="json"))
    yield "plan.seed", str(spec.plan.seed)
    if environment is not None:
        for key, fact in environment.hardware.items():
            yield f"hardware.{key}", _write_short(fact)
        for key, version in environment.versions.items():
            yield f"versions.{key}", version


def _flatten(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for below, one in value.items():
            yield from _flatten(f"{key}.{below}", one)
    else:
        yield key, shorten(_write_short(value), 60)


def _write_short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
