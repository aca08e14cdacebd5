"""What an attempt need not measure, because one before it has."""

from dataclasses import replace
from typing import Any

from app.judge.comparison import should_stop_early
from app.judge.continuation import Continuation, Earlier, find_continuation, find_finished_blocks
from app.judge.warnings import WarningCode, warn_of_continuation
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, StartedArm
from app.spec.plan import Phase, PlannedTrial, plan_trials, remaining
from app.spec.resolution import resolve
from tests.support.builders import a_resolved_arm, a_spec, a_trial

SPEC = a_spec(plan={"blocks": 4})
PLAN = plan_trials(SPEC, resolve(SPEC))


def block(number: int, **changes: Any) -> list[TrialSummary]:
    """Both arms' trials of a block; the changes are the second's."""
    return [a_trial("sync", number, 0), a_trial("async", number, 1, **changes)]


def arms(**versions: str) -> tuple[StartedArm, ...]:
    return tuple(
        a_resolved_arm(name, hardware={"gpu_count": 0}, versions={"vllm": "0.32.0"} | versions)
        for name in ("sync", "async")
    )


def earlier(*blocks: int, attempt: int = 1, **changes: Any) -> Earlier:
    trials = [replace(trial, attempt=attempt) for number in blocks for trial in block(number)]
    found = Earlier("an-id", attempt, None, arms(), tuple(trials))
    return replace(found, **changes)


def found(*attempts: Earlier, **options: Any) -> Continuation | None:
    return find_continuation(SPEC, resolve(SPEC), PLAN, arms(), attempts, **options)


def letters(trials: tuple[PlannedTrial, ...]) -> str:
    """`w` for a warm-up, the block for a measured trial."""
    return "".join("w" if trial.phase is Phase.WARMUP else str(trial.block) for trial in trials)


def test_a_block_is_finished_once_every_arm_has_run_in_it_undisturbed() -> None:
    trials = [
        *block(0),
        *block(1, failed=True),
        *block(2, conditions=Conditions(other_cpu_pct=90.0)),
        a_trial("sync", 3),
        *block(7),
        a_trial("async", 3, 1, phase=Phase.WARMUP),
    ]
    assert find_finished_blocks(trials, PLAN) == {0}


def test_without_finished_blocks_there_is_nothing_to_say() -> None:
    assert found() is None
    assert found(earlier()) is None
    assert list(warn_of_continuation(None)) == []


def test_blocks_under_the_same_fingerprint_are_taken_over_and_it_is_said() -> None:
    continuation = found(earlier(0, 2))
    assert continuation is not None
    assert continuation.blocks == {0, 2}
    assert continuation.run_again == ()
    (warning,) = warn_of_continuation(continuation)
    assert warning.code is WarningCode.CONTINUED
    assert warning.detail.startswith("Blocks 0, 2 of attempt 1 of an-id had been finished under the same fingerprint")


def test_a_block_comes_from_the_newest_attempt_that_has_it() -> None:
    continuation = found(earlier(1, attempt=2), earlier(0, 1))
    assert continuation is not None
    assert [(one.attempt, one.blocks) for one in continuation.taken_over] == [(2, (1,)), (1, (0,))]


def test_blocks_under_another_fingerprint_run_again_and_the_difference_is_named() -> None:
    continuation = found(earlier(0, 1, arms=arms(vllm="0.31.0", torch="2.11")))
    assert continuation is not None
    assert continuation.blocks == frozenset()
    (old,) = continuation.run_again
    assert old.differences == ("versions.torch was 2.11, is unknown", "versions.vllm was 0.31.0, is 0.32.0")
    (warning,) = warn_of_continuation(continuation)
    assert warning.code is WarningCode.NOT_CONTINUED
    assert "versions.vllm was 0.31.0, is 0.32.0" in warning.detail


def test_an_older_attempt_may_fit_where_a_newer_one_does_not() -> None:
    continuation = found(earlier(0, attempt=2, arms=arms(vllm="0.31.0")), earlier(0, 1))
    assert continuation is not None
    assert continuation.blocks == {0, 1}
    assert [one.attempt for one in continuation.run_again] == [2]


def test_a_prompt_file_that_changed_is_another_workload() -> None:
    same = found(earlier(0, workload_sha256="a"), workload_sha256="a")
    other = found(earlier(0, workload_sha256="a"), workload_sha256="b")
    assert same is not None
    assert same.blocks == {0}
    assert other is not None
    assert other.blocks == frozenset()
    assert other.run_again[0].differences == ("workload.sha256 was a, is b",)


def test_only_what_is_left_of_a_plan_runs_after_its_warm_ups() -> None:
    assert letters(remaining(PLAN, {0, 2})) == "ww1133"
    assert letters(remaining(PLAN, ())) == "ww00112233"
    assert remaining(PLAN, {0, 1, 2, 3}) == ()


def test_restarted_engines_warm_up_for_what_is_left_only() -> None:
    spec = a_spec(plan={"blocks": 3, "residency": "restart"})
    plan = plan_trials(spec, resolve(spec))
    assert remaining(plan, ()) == plan.trials
    assert letters(remaining(plan, {1})) == "w0w0w2w2"


def test_a_look_is_read_once_over_all_attempts() -> None:
    spec = a_spec(plan={"blocks": 6, "looks": [2, 4]})
    plan = plan_trials(spec, resolve(spec))
    one_disturbed = [*block(0), *block(1, conditions=Conditions(other_cpu_pct=90.0))]
    before = replace(earlier(), trials=tuple(one_disturbed))
    continuation = find_continuation(spec, resolve(spec), plan, arms(), [before])
    assert continuation is not None
    assert (continuation.blocks, continuation.looks_read) == (frozenset({0}), (2,))

    trials = [
        a_trial(arm, number, position, throughput)
        for number in range(4)
        for position, (arm, throughput) in enumerate((("sync", 100 + 0.1 * number), ("async", 50.0)))
    ]
    again = [trial for trial in trials if trial.planned.block < 2]
    assert should_stop_early(spec, resolve(spec), plan, again)
    assert not should_stop_early(spec, resolve(spec), plan, again, read=continuation.looks_read)
    assert should_stop_early(spec, resolve(spec), plan, trials, read=continuation.looks_read)


def test_a_look_counts_as_read_where_no_block_of_it_can_be_taken_over() -> None:
    spec = a_spec(plan={"blocks": 4, "looks": [2]})
    disturbed = [trial for number in (0, 1) for trial in block(number, conditions=Conditions(other_cpu_pct=90.0))]
    before = replace(earlier(), trials=tuple(disturbed))
    continuation = find_continuation(spec, resolve(spec), plan_trials(spec, resolve(spec)), arms(), [before])
    assert continuation == Continuation(looks_read=(2,))
    assert list(warn_of_continuation(continuation)) == []


def test_a_continuation_of_an_earlier_version_still_loads() -> None:
    assert Continuation.model_validate({"taken_over": [], "run_again": []}).looks_read == ()
