"""Other people's processes on the arms' GPUs."""

from collections.abc import Callable
from typing import Any

import pytest

from app.judge.comparison import Comparison, Verdict, compare
from app.judge.conditions import find_disturbance
from app.judge.warnings import WarningCode, warn_of_conditions
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, GpuConditions, Unseen
from app.spec.resolution import resolve
from tests.support.builders import a_gpu, a_neighbour, a_spec, a_trial

Gpu = Callable[[int], GpuConditions]  # block -> conditions


def trials_of(sync: Gpu, other: Gpu, change: float = 0.9, blocks: int = 6) -> list[TrialSummary]:
    """ABBA blocks in which async is so much faster or slower, on a GPU in these conditions, each with a start."""
    trials = []
    for block in range(blocks):
        for arm, gpu, speed in (("sync", sync, 100.0), ("async", other, 100.0 * change)):
            position = (arm == "async") ^ (block % 2)
            noise = 1 + 0.001 * (block % 3)
            conditions = Conditions(gpus=(gpu(block),))
            trials.append(a_trial(arm, block, position, speed * noise, conditions=conditions, start=block))
    return trials


def throughput(trials: list[TrialSummary]) -> Comparison:
    """The main comparison."""
    return next(iter(compare(a_spec(), resolve(a_spec()), trials, ())))


def always(*args: Any, **changes: Any) -> Gpu:
    """The same in every block."""
    return lambda _: a_gpu(*args, **changes)


QUIET = always()
BUSY = a_neighbour(sm_pct=43.0)


def test_arms_whose_gpu_nobody_else_used_are_compared() -> None:
    found = throughput(trials_of(QUIET, QUIET))
    assert found.verdict is Verdict.SLOWER
    assert found.provisos == ()


@pytest.mark.parametrize(
    ("neighbour", "did"),
    [
        (a_neighbour(sm_pct=43.0), "another process, python3 (pid 4711, 2.0 GiB) took 43 % of the SM time of GPU 0"),
        (a_neighbour(memory_busy_pct=9.0), "had the memory at work for 9 % of the time on GPU 0"),
        (a_neighbour(passing=True), "came or went during the trial on GPU 0"),
        (a_neighbour(passing=True, sm_pct=None, name="", memory_mib=None), "another process (pid 4711) came or went"),
    ],
    ids=["computes", "copies", "passes", "unreadable"],
)
def test_a_neighbour_that_did_something_disturbs_the_trial(neighbour: Any, did: str) -> None:
    assert did in (find_disturbance(Conditions(gpus=(a_gpu(neighbour),))) or "")


def test_a_neighbour_on_any_gpu_of_the_arm_disturbs_it() -> None:
    assert "GPU 1" in (find_disturbance(Conditions(gpus=(a_gpu(), a_gpu(BUSY, gpu="1")))) or "")


def test_a_neighbour_that_only_holds_memory_disturbs_nobody_and_is_a_warning() -> None:
    trials = trials_of(always(a_neighbour()), always(a_neighbour()))
    assert throughput(trials).verdict is Verdict.SLOWER
    (sync, _) = (one for one in warn_of_conditions(trials) if one.code is WarningCode.NEIGHBOUR)
    assert sync.detail == "On GPU 0 was another process, python3 (pid 4711, 2.0 GiB), in 6 of 6 trials."


def test_a_neighbour_during_one_arm_s_trials_only_confounds_though_all_its_blocks_are_dropped() -> None:
    found = throughput(trials_of(QUIET, always(BUSY)))
    assert found.pairs == 0
    assert found.verdict is Verdict.CONFOUNDED
    (reason,) = found.reasons
    assert reason == (
        "another process, python3 (pid 4711, 2.0 GiB) was on GPU 0 during trials of async only and took up to 43 % of "
        "its SM time, in 6 of 6 blocks"
    )


def test_one_that_works_during_one_arm_s_trials_and_waits_during_the_others_confounds() -> None:
    (reason,) = throughput(trials_of(always(a_neighbour()), always(BUSY))).reasons
    assert reason == (
        "another process, python3 (pid 4711, 2.0 GiB) took 0 % of the SM time of GPU 0 during the trials of sync and "
        "43 % during those of async"
    )


def test_one_that_holds_memory_during_one_arm_s_trials_only_confounds() -> None:
    assert throughput(trials_of(always(a_neighbour()), QUIET)).verdict is Verdict.CONFOUNDED


def test_a_neighbour_during_all_trials_drops_every_block_and_is_named() -> None:
    found = throughput(trials_of(always(BUSY), always(BUSY)))
    assert (found.pairs, found.verdict) == (0, Verdict.INCONCLUSIVE)
    assert "python3 (pid 4711" in found.dropped_blocks[0].reason
    assert "python3 (pid 4711" in found.reasons[0]


def test_a_neighbour_in_one_block_costs_that_block_only() -> None:
    found = throughput(trials_of(QUIET, lambda block: a_gpu(*[BUSY] * (block == 2))))
    assert (found.pairs, found.verdict) == (5, Verdict.SLOWER)
    assert [one.block for one in found.dropped_blocks] == [2]


def test_jobs_that_come_and_go_beside_both_arms_do_not_tell_them_apart() -> None:
    found = throughput(
        trials_of(lambda block: a_gpu(a_neighbour(pid=block)), lambda block: a_gpu(a_neighbour(pid=100 + block)))
    )
    assert found.verdict is Verdict.SLOWER


def test_a_verdict_says_that_nobody_could_see_neighbours() -> None:
    unseen = always(unseen={Unseen.PROCESSES: "NVML: Insufficient Permissions"})
    found = throughput(trials_of(unseen, unseen))
    assert found.verdict is Verdict.SLOWER
    assert found.provisos == (
        "which other processes were on the GPU could not be seen (NVML: Insufficient Permissions)",
    )


def test_what_a_neighbour_took_is_missed_only_where_there_is_one() -> None:
    unseen = {Unseen.SHARES: "Not Supported"}
    beside = always(a_neighbour(sm_pct=None, memory_busy_pct=None), unseen=unseen)
    assert "what other processes took" in throughput(trials_of(beside, beside)).provisos[0]
    assert throughput(trials_of(always(unseen=unseen), always(unseen=unseen))).provisos == ()


def test_trials_of_an_earlier_version_without_gpu_conditions_are_compared() -> None:
    trials = [a_trial(arm, block, 0, 100.0 + block, start=block) for block in range(4) for arm in ("sync", "async")]
    assert throughput(trials).provisos == ()
