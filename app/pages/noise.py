"""What comparing an arm with itself gave in the same set-up: the noise beside which an effect has to be seen."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.errors import InvalidInput
from app.experiment.lifecycle import Status
from app.experiment.parity import differing_settings
from app.experiment.resolution import ResolvedExperiment, resolve
from app.experiment.results import Results
from app.experiment.verdict import Comparison
from app.pages.stored import read_results
from app.pages.subject import Subject, known_of
from app.store import experiments
from app.store.engine import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId

LOOKED_AT = 20  # experiments of the same model, newest first


@dataclass(frozen=True, slots=True)
class Twin:
    """An arm against its equal."""

    experiment_id: ExperimentId
    comparison: Comparison


def twins(db: Database, subject: Subject) -> tuple[Twin, ...]:
    """A/A comparisons of output throughput: in this experiment, and in others with its workload and its host."""
    if subject.resolved is None:
        return ()
    return (*_own(subject, subject.resolved), *_others(db, subject, subject.resolved))


def floor_pct(found: tuple[Twin, ...]) -> float | None:
    """The largest change between equal arms."""
    return max(
        (abs(twin.comparison.change_pct) for twin in found if twin.comparison.change_pct is not None), default=None
    )


def _own(subject: Subject, resolved: ResolvedExperiment) -> Iterator[Twin]:
    yield from _equal_pairs(subject.item.id, resolved, subject.results)


def _others(db: Database, subject: Subject, resolved: ResolvedExperiment) -> Iterator[Twin]:
    for item in experiments.page(db, model=subject.item.model, status=(Status.SUCCEEDED,), limit=LOOKED_AT).items:
        if item.id == subject.item.id or item.simulated != subject.item.simulated:
            continue
        row = experiments.get(db, item.id)
        theirs = _resolved(row)
        if row.results is None or theirs is None or row.spec.workload != subject.row.spec.workload:
            continue
        if not any(not differing_settings(one, other) for one in resolved.arms for other in theirs.arms):
            continue
        results = read_results(row.results, known_of(item)).results
        if _same_host(results, subject.results):
            yield from _equal_pairs(item.id, theirs, results)


def _equal_pairs(experiment_id: ExperimentId, resolved: ResolvedExperiment, results: Results) -> Iterator[Twin]:
    arms = {arm.name: arm for arm in resolved.arms}
    for found in results.comparisons:
        known = found.metric == "output_throughput" and {found.baseline, found.candidate} <= set(arms)
        if known and not differing_settings(arms[found.baseline], arms[found.candidate]):
            yield Twin(experiment_id, found)


def _resolved(row: ExperimentRow) -> ResolvedExperiment | None:
    try:
        return resolve(row.spec)
    except InvalidInput:
        return None


def _same_host(one: Results, other: Results) -> bool:
    if one.environment is None or other.environment is None:
        return one.environment is other.environment
    return (one.environment.hardware, one.environment.versions) == (
        other.environment.hardware,
        other.environment.versions,
    )
