"""The sentence, word by word."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.errors import FailureCode
from app.judge.summary import write_summary
from app.judge.verdict import Comparison, Verdict
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure, Status
from app.spec.resolution import resolve
from tests.support.builders import a_simulated_spec, a_spec


def a_comparison(verdict: Verdict = Verdict.SAME, **changes: Any) -> Comparison:
    fields: dict[str, Any] = {
        "metric": "output_throughput",
        "unit": "tokens/s",
        "higher_is_better": True,
        "primary": True,
        "baseline": "sync",
        "candidate": "async",
        "ratio": 0.998,
        "change_pct": -0.2,
        "interval_pct": (-0.8, 0.4),
        "confidence": 0.95,
        "margin_pct": 2.0,
        "p_t": 0.41,
        "p_holm": None,
        "p_sign_flip": 0.44,
        "pairs": 6,
        "blocks": (),
        "dropped_blocks": (),
        "analysis": "narrower",
        "sd_pct": 0.5,
        "position_effect_pct": None,
        "detectable_effect_pct": 0.9,
        "blocks_needed": None,
        "verdict": verdict,
        "within_margin": verdict is Verdict.SAME,
        "reasons": (),
    }
    return Comparison(**(fields | changes))


def said(
    *comparisons: Comparison, status: Status = Status.SUCCEEDED, spec: Experiment | None = None, **changes: Any
) -> str:
    facts: dict[str, Any] = {"blocks_done": 6, "blocks_planned": 6}
    return write_summary(resolve(spec or a_spec()), status, comparisons, **(facts | changes))


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_the_same() -> None:
    assert said(a_comparison()) == (
        "async is 0.2 % slower than sync on output throughput (95 % interval −0.4 % to +0.8 %, 6 blocks): "
        "same within 2 %."
    )


def test_the_same_without_any_difference() -> None:
    assert said(a_comparison(change_pct=0.0, interval_pct=(0.0, 0.0))) == (
        "async is as fast as sync on output throughput (95 % interval 0.0 % to 0.0 %, 6 blocks): same within 2 %."
    )


def test_slower() -> None:
    comparison = a_comparison(Verdict.SLOWER, change_pct=-18.7, interval_pct=(-19.3, -18.1))
    assert said(comparison) == (
        "async is 18.7 % slower than sync on output throughput (95 % interval +18.1 % to +19.3 %, 6 blocks). "
        "They differ in driver.api (async_llm against llm)."
    )


def test_faster_but_within_the_margin() -> None:
    comparison = a_comparison(Verdict.FASTER, change_pct=1.1, interval_pct=(0.8, 1.4), within_margin=True)
    assert said(comparison) == (
        "async is 1.1 % faster than sync on output throughput (95 % interval +0.8 % to +1.4 %, 6 blocks): "
        "faster, but within the 2 % margin. They differ in driver.api (async_llm against llm)."
    )


def test_a_difference_is_blamed_on_all_settings_in_which_the_arms_differ() -> None:
    spec = a_spec(
        model={"id": "org/model"},
        arms=[
            {"name": "sync", "profile": "vllm-sync"},
            {
                "name": "async",
                "profile": "vllm-sync",
                "driver": {"detokenize": True},
                "engine": {"enforce_eager": True},
            },
        ],
    )
    comparison = a_comparison(Verdict.SLOWER, change_pct=-80.0, interval_pct=(-81.0, -79.0))
    assert said(comparison, spec=spec).endswith(
        "They differ in engine.enforce_eager (true against false); driver.detokenize (true against false)."
    )


def test_equal_arms_that_differ_are_said_to_be_equal() -> None:
    spec = a_spec(arms=[{"name": name, "profile": "vllm-sync"} for name in ("sync", "async")])
    comparison = a_comparison(Verdict.SLOWER, change_pct=-3.0, interval_pct=(-5.0, -1.0))
    assert said(comparison, spec=spec).endswith("Their settings are the same.")


def test_inconclusive_says_what_could_be_seen_and_what_it_takes() -> None:
    comparison = a_comparison(
        Verdict.INCONCLUSIVE,
        interval_pct=(-3.1, 2.8),
        detectable_effect_pct=4.1,
        blocks_needed=24,
        reasons=("the interval includes 0 and reaches beyond the margin of 2 %",),
    )
    assert said(comparison) == (
        "async against sync on output throughput is inconclusive: −0.2 % (95 % interval −3.1 % to +2.8 %, 6 blocks). "
        "6 blocks reliably show only differences of 4.1 % or more; about 24 would probably decide."
    )


def test_inconclusive_beyond_hope() -> None:
    comparison = a_comparison(Verdict.INCONCLUSIVE, reasons=("the interval includes 0",))
    assert said(comparison).endswith("more than 1000 would be needed.")


def test_fewer_than_two_blocks() -> None:
    comparison = a_comparison(
        Verdict.INCONCLUSIVE,
        interval_pct=None,
        detectable_effect_pct=None,
        pairs=1,
        reasons=("fewer than 2 blocks (1): one difference does not show its own noise",),
    )
    assert said(comparison, blocks_done=1, blocks_planned=1) == (
        "async against sync on output throughput: no verdict, fewer than 2 blocks (1): one difference does not show "
        "its own noise; measured −0.2 %."
    )


def test_confounded_names_settings_and_values_and_not_the_mode() -> None:
    comparison = a_comparison(
        Verdict.CONFOUNDED,
        change_pct=-18.7,
        interval_pct=(-19.3, -18.1),
        reasons=("engine.scheduler_config.max_num_seqs is 1024 in sync and 128 in async, and no setting says so",),
    )
    sentence = said(comparison)
    assert sentence == (
        "async and sync cannot be compared: engine.scheduler_config.max_num_seqs is 1024 in sync and 128 in async, and "
        "no setting says so. What was measured on output throughput, −18.7 % (95 % interval −19.3 % to −18.1 %, "
        "6 blocks), may come from that."
    )
    assert "slower" not in sentence


def test_many_reasons_are_counted_after_the_third() -> None:
    comparison = a_comparison(Verdict.CONFOUNDED, reasons=("one", "two", "three", "four", "five"), change_pct=None)
    assert said(comparison) == "async and sync cannot be compared: one; two; three; and 2 more."


# --- states --------------------------------------------------------------------------------------------------------


def test_queued() -> None:
    assert said(status=Status.QUEUED, blocks_done=0) == "Queued: nothing has run yet."


def test_running_shows_numbers_and_no_verdict() -> None:
    comparison = a_comparison(Verdict.INCONCLUSIVE, reasons=("the experiment is not done",), pairs=3)
    sentence = said(comparison, status=Status.RUNNING, blocks_done=3, withheld="the experiment is not done")
    assert sentence == (
        "Running: 3 of 6 blocks are done. async against sync on output throughput: −0.2 % "
        "(95 % interval −0.8 % to +0.4 %, 3 blocks); no verdict, the experiment is not done."
    )


def test_running_without_a_block_has_nothing_to_say_of_the_arms() -> None:
    assert said(a_comparison(), status=Status.RUNNING, blocks_done=0) == "Running: 0 of 6 blocks are done."


def test_failed_says_how_far_it_came_and_why() -> None:
    failure = Failure(code=FailureCode.ENGINE_DIED, detail="process 12 of the engine is gone", arm="async")
    assert said(status=Status.FAILED, blocks_done=0, failure=failure) == (
        "Failed after 0 of 6 blocks with engine_died in async: process 12 of the engine is gone."
    )


def test_failed_keeps_what_the_finished_blocks_say() -> None:
    failure = Failure(code=FailureCode.TIMED_OUT, detail="not done within 60 s.")
    assert said(a_comparison(pairs=5), status=Status.FAILED, blocks_done=5, failure=failure).startswith(
        "Failed after 5 of 6 blocks with timed_out: not done within 60 s. async is 0.2 % slower"
    )


def test_cancelled() -> None:
    assert said(status=Status.CANCELLED, blocks_done=0) == "Cancelled after 0 of 6 blocks."


def test_one_arm_has_nothing_to_be_compared_with() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}])
    assert said(spec=spec) == "sync is the only arm: there is nothing to compare it with."


def test_every_candidate_gets_a_sentence() -> None:
    spec = a_spec(arms=[{"name": name, "profile": "vllm-sync"} for name in ("sync", "async", "third")])
    sentence = said(a_comparison(), a_comparison(candidate="third"), spec=spec)
    assert sentence.count("same within 2 %.") == 2
    assert "\nthird is 0.2 % slower than sync" in sentence, "each on a line of its own"


def test_other_metrics_are_left_to_the_table() -> None:
    assert "duration" not in said(a_comparison(), a_comparison(metric="duration_s"))


def test_simulated_is_the_first_word() -> None:
    assert said(a_comparison(), spec=a_simulated_spec()).startswith("Simulated. async is")


@given(
    st.sampled_from(list(Verdict)),
    st.floats(-50, 50),
    st.tuples(st.floats(0, 50), st.floats(0, 50)),
    st.booleans(),
)
def test_the_words_slower_and_faster_need_a_verdict_that_allows_them(
    verdict: Verdict, change: float, widths: tuple[float, float], within: bool
) -> None:
    comparison = a_comparison(
        verdict,
        change_pct=change,
        interval_pct=(change - widths[0], change + widths[1]),
        within_margin=within,
        reasons=("a reason",),
        blocks_needed=24,
    )
    sentence = said(comparison)
    if verdict in {Verdict.INCONCLUSIVE, Verdict.CONFOUNDED}:
        assert "slower" not in sentence
        assert "faster" not in sentence
    assert ("same within" in sentence) == (verdict is Verdict.SAME)


def test_a_proven_difference_too_small_for_its_digits_is_not_called_none() -> None:
    comparison = a_comparison(Verdict.SLOWER, change_pct=-0.0004, interval_pct=(-0.00045, -0.00035), within_margin=True)
    assert said(comparison).startswith("async is less than 0.001 % slower than sync on output throughput")
    assert "slower, but within the 2 % margin" in said(comparison)
