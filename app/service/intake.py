"""Taking experiments in, from API and pages alike: what one would do, queue it, queue it once more."""

from dataclasses import dataclass

from app.service.access import Caller
from app.service.cost import Cost, estimate_cost, list_advice
from app.service.permits import permit
from app.settings import Settings
from app.spec.experiment import Experiment
from app.spec.parsing import parse_experiment
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from app.store import experiments, queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import Enqueued
from app.store.tokens import Scope


@dataclass(frozen=True, slots=True)
class Preview:
    """What an experiment would do and take."""

    resolved: ResolvedExperiment
    plan: TrialPlan
    cost: Cost
    advice: tuple[str, ...]


def read_spec(document: object, settings: Settings) -> Experiment:
    """The experiment a document asks for; InvalidInput names everything in it that cannot or may not be."""
    spec = parse_experiment(document)
    permit(spec, settings)
    return spec


def preview(db: Database, spec: Experiment) -> Preview:
    """Resolve, plan and estimate without queueing anything; InvalidInput if the spec contradicts itself."""
    resolved = resolve(spec)
    plan = plan_trials(spec, resolved)
    return Preview(resolved, plan, estimate_cost(db, spec, resolved, plan), tuple(list_advice(spec, resolved, plan)))


def submit(db: Database, spec: Experiment, settings: Settings, caller: Caller, idempotency_key: str | None) -> Enqueued:
    """Queue an experiment, once per key of this caller; TooManyRequests where as many of theirs wait as may."""
    most = _find_most_queued(caller, settings)
    return queue.enqueue(db, spec, idempotency_key=caller.own(idempotency_key), by=caller.actor, most_queued=most)


def retry(
    db: Database, experiment_id: ExperimentId, settings: Settings, caller: Caller, idempotency_key: str | None = None
) -> Enqueued:
    """Queue what failed or was cancelled once more, if the operator still lets its spec name what it names."""
    permit(experiments.get(db, experiment_id).spec, settings)
    most = _find_most_queued(caller, settings)
    return queue.retry(
        db, experiment_id, idempotency_key=caller.own(idempotency_key), by=caller.actor, most_queued=most
    )


def _find_most_queued(caller: Caller, settings: Settings) -> int | None:
    """Experiments of this caller that may wait; None for admins, whom nothing stops."""
    return None if caller.may(Scope.ADMIN) else settings.most_queued
