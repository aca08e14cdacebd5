"""One experiment as its pages need it: read once per request."""

from dataclasses import dataclass

from app.errors import InvalidInput
from app.judge.results import Results
from app.judge.verdict import Comparison
from app.pages.results_reader import Reading, read_results
from app.service.results import make_results
from app.spec.lifecycle import Status
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from app.store import experiments
from app.store.database import Database
from app.store.experiments import ExperimentItem, ExperimentRow
from app.store.ids import ExperimentId


@dataclass(frozen=True, slots=True)
class Subject:
    """An experiment, what it found, and what could not be read of it."""

    row: ExperimentRow
    resolved: ResolvedExperiment | None  # None where this version does not know what the spec names
    plan: TrialPlan | None
    reading: Reading

    @property
    def item(self) -> ExperimentItem:
        """As lists show it."""
        return self.row.item

    @property
    def results(self) -> Results:
        """What it found, or has found so far."""
        return self.reading.results

    @property
    def title(self) -> str:
        """Its name, or what stands for one."""
        return self.item.name or f"Experiment {self.item.id}"

    @property
    def terminal(self) -> bool:
        """Whether it will not change again."""
        return self.item.status.terminal

    @property
    def seen(self) -> str:
        """Changes whenever there is something new to see in the results."""
        progress = self.item.progress
        done = "" if progress is None else progress.trials_done
        return f"{self.item.attempt}.{self.item.status}.{done}"

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the spec's order."""
        return tuple(arm.name for arm in self.row.spec.arms)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Arms that are compared with the baseline, in the spec's order."""
        return tuple(arm for arm in self.arms if arm != self.row.spec.baseline_name)

    def list_comparisons(self, candidate: str) -> tuple[Comparison, ...]:
        """A candidate's comparisons, primary metrics first."""
        return tuple(found for found in self.results.comparisons if found.candidate == candidate)


def load(db: Database, experiment_id: str) -> Subject:
    """The experiment; NotFound if there is none, UnreadableSpec if another version wrote it."""
    row = experiments.get(db, ExperimentId(experiment_id))
    try:
        resolved = resolve(row.spec)
        plan = plan_trials(row.spec, resolved)
    except InvalidInput:
        resolved, plan = None, None
    return Subject(row, resolved, plan, read_findings(db, row, resolved))


def list_known(item: ExperimentItem) -> dict[str, object]:
    """What is true of an experiment's results whatever they say themselves."""
    return {
        "experiment_id": item.id,
        "status": item.status,
        "complete": item.status is Status.SUCCEEDED,
        "simulated": item.simulated,
    }


def read_findings(db: Database, row: ExperimentRow, resolved: ResolvedExperiment | None) -> Reading:
    """Stored results, or what there is so far."""
    known = list_known(row.item)
    if row.results is not None:
        return read_results(row.results, known)
    if resolved is not None:
        results = make_results(db, row)
        return Reading(results, method=f"{results.method.name} {results.method.version}")
    nothing = read_results({}, known)
    note = "The spec names a profile or a model preset that this version does not know, so nothing can be computed."
    return Reading(nothing.results, (note,), nothing.method)
