"""What a reader asks before believing a verdict."""

from datetime import UTC, datetime

from app.judge.results import Results, TrialReport
from app.measure.records import TrialState
from app.pages.believability import list_disturbances
from app.pages.results_reader import read_results
from app.spec.lifecycle import Status
from app.spec.plan import Phase


def a_report(block: int, **met: object) -> TrialReport:
    known = {
        "slot": block,
        "phase": Phase.MEASURED,
        "block": block,
        "position": 0,
        "arm": "sync",
        "fresh_engine": False,
        "state": TrialState.SUCCEEDED,
        "started_at": datetime(2026, 1, 31, tzinfo=UTC),
        "wall_s": 1.0,
        "metrics": {},
        "missing": {},
    }
    return TrialReport.model_validate(known | met)


def results_of(*trials: TrialReport) -> Results:
    known = {"experiment_id": "x", "status": Status.SUCCEEDED, "complete": True, "simulated": False}
    return read_results({}, known).results.model_copy(update={"trials": trials})


def test_neighbours_held_back_clocks_and_dropped_trials_are_told_trial_by_trial() -> None:
    quiet = a_report(0)
    beside = a_report(1, neighbours=("python3 (pid 4711) took 43 % of GPU 0",))
    held = a_report(2, held_back_pct={"power": 85.0, "heat": 0.0})
    dropped = a_report(3, dropped="async failed: the engine died")
    warmup = a_report(4, phase=Phase.WARMUP, neighbours=("python3",))

    found = list_disturbances(results_of(quiet, beside, held, dropped, warmup))

    assert [(one.trial.block, one.met) for one in found] == [
        (1, ("python3 (pid 4711) took 43 % of GPU 0",)),
        (2, ("held back by power in 85.0 % of the trial",)),
        (3, ()),
    ]
