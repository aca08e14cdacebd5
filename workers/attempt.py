"""One attempt at an experiment, from claim to verdict: without Ray, which it is given as a cluster."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from app.errors import AllBlocksDropped, Cancelled, Draining, ExperimentFailure, LeaseLost
from app.measure.records import TrialState
from app.service.permits import read_permits
from app.settings import Settings
from app.spec.lifecycle import Status
from app.spec.plan import Phase
from app.spec.resolution import ResolvedArm
from app.store import queue
from app.store.database import Database
from workers.batches import SeededBatches
from workers.engines import Engine, Engines
from workers.heartbeat import Heartbeat
from workers.interpreters import ASK_S, ask_interpreter, check_interpreters
from workers.journal import Journal
from workers.locations import locate
from workers.prompts import read_prompts
from workers.trials import Rules, run_trials
from workers.watch import Watch
from workers.whole_prompts import keep_prompts_whole

log = structlog.get_logger(__name__)

T = TypeVar("T")

_ANSWER_S = ASK_S + 60.0  # Ray first starts a process to ask in


class ReservedPlace(Protocol):
    """What an attempt needs of the resources that are reserved for it."""

    def ask(self, function: Callable[..., T], *arguments: object, within_s: float) -> T:
        """What a function of this project answers there."""
        ...


PlaceT = TypeVar("PlaceT", bound=ReservedPlace)
PlaceT_co = TypeVar("PlaceT_co", bound=ReservedPlace, covariant=True)


class Resources(Protocol[PlaceT_co]):
    """What an attempt needs of a cluster."""

    @property
    def has_gpus(self) -> bool:
        """Whether any node has a GPU."""
        ...

    def connect(self) -> None:
        """Connect, again if the connection is gone."""
        ...

    def reserve(self, gpus: int, check: Callable[[], None]) -> AbstractContextManager[PlaceT_co]:
        """Reserve so many GPUs of one node; ``check`` ends the waiting by raising."""
        ...


MakeEngine = Callable[[ResolvedArm, PlaceT, bool, int, Path], Engine]  # arm, place, sleep mode, seed, folder of logs


def run_experiment(
    db: Database,
    cluster: Resources[PlaceT],
    settings: Settings,
    claim: queue.Claim,
    watch: Watch,
    *,
    make_engine: MakeEngine[PlaceT],
) -> None:
    """Run a claimed experiment to its end: engines, trials, verdict. Raises nothing an experiment can cause."""
    journal = Journal(db, claim, watch)
    with Heartbeat(db, claim.lease, settings.lease_s, journal.progress, watch):
        try:
            _run_to_its_end(journal, cluster, make_engine, settings)
        except LeaseLost as error:
            log.error("attempt abandoned", detail=error.detail)


def _run_to_its_end(
    journal: Journal, cluster: Resources[PlaceT], make_engine: MakeEngine[PlaceT], settings: Settings
) -> None:
    try:
        _measure(journal, cluster, make_engine, settings)
        journal.finish(Status.SUCCEEDED, "all blocks done")
    except Cancelled as error:
        journal.finish(Status.CANCELLED, error.detail)
    except Draining as error:
        journal.hand_back(error.detail)
    except ExperimentFailure as error:
        journal.fail(error)


def _measure(journal: Journal, cluster: Resources[PlaceT], make_engine: MakeEngine[PlaceT], settings: Settings) -> None:
    spec, plan, watch = journal.spec, journal.plan, journal.watch
    permits = read_permits(settings)
    resolved = locate(spec, journal.resolved, permits)
    arms = resolved.arms
    prompts = read_prompts(spec, resolved, permits.data_roots, watch.check)
    cluster.connect()
    largest = max((arm.engine.tensor_parallel_size or 1 for arm in arms if not arm.simulated), default=0)
    gpus = largest if cluster.has_gpus else 0
    as_started = {arm.name: arm for arm in arms} if gpus else keep_prompts_whole(spec, resolved, prompts)
    logs_dir = settings.data_dir.absolute() / "engine-logs"
    with cluster.reserve(gpus, watch.check) as place:
        check_interpreters(arms, lambda python: place.ask(ask_interpreter, python, within_s=_ANSWER_S))

        def make(arm: ResolvedArm, sleep_mode: bool) -> Engine:
            return make_engine(as_started[arm.name], place, sleep_mode, spec.plan.seed, logs_dir)

        with Engines(plan, arms, make, gpus > 0, watch) as engines:
            journal.keep_arms(engines.start_all())
            vocab_size = journal.arms[0].vocab_size
            workload = SeededBatches(
                spec, journal.resolved, vocab_size, engines.encode, from_file=prompts, check=watch.check
            )
            journal.keep_workload(workload.sha256)
            journal.take_over()
            rules = Rules(
                drivers={arm.name: arm.driver for arm in arms},
                reset_prefix_cache=spec.plan.reset_prefix_cache,
                cancel_grace_s=settings.cancel_grace_s,
                done=frozenset() if journal.continuation is None else journal.continuation.blocks,
            )
            if not journal.decided:
                for result in run_trials(plan, engines, workload, rules, watch):
                    journal.keep_trial(result)
                    if journal.decided:
                        break
    measured = [trial for trial in journal.summaries if trial.planned.phase is Phase.MEASURED]
    if all(trial.state is not TrialState.SUCCEEDED for trial in measured):
        errors = dict.fromkeys(trial.error for trial in journal.summaries if trial.error is not None)
        raise AllBlocksDropped("every measured trial failed: " + "; ".join(errors))
