"""Arms whose GPU was held back, and what of that they explain themselves."""

import pytest

from app.judge.comparison import Verdict
from app.judge.results import build_results
from app.measure.records import Spread, Unseen
from app.spec.lifecycle import Status
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from tests.judge.test_neighbours import QUIET, always, throughput, trials_of
from tests.support.builders import a_spec

CAPPED = {"power": 85.0, "heat": 0.0}
HOT = {"power": 0.0, "heat": 60.0}


def test_arms_that_are_capped_alike_are_compared() -> None:
    capped = always(clock_mhz=1770.0, power_w=682.0, held_back_pct=CAPPED)
    found = throughput(trials_of(capped, capped))
    assert (found.verdict, found.provisos) == (Verdict.SLOWER, ())


def test_an_arm_that_is_faster_and_capped_explains_it() -> None:
    found = throughput(trials_of(QUIET, always(clock_mhz=1770.0, power_w=690.0, held_back_pct=CAPPED), change=1.2))
    assert found.verdict is Verdict.FASTER
    (proviso,) = found.provisos
    assert proviso == (
        "GPU 0 was held back by power for 85 % of the time during the trials of async and 0 % during those of sync "
        "(SM clock 1,770 MHz with async, 1,980 MHz with sync): async does more work in a second, and would only be "
        "faster without"
    )


def test_an_arm_that_is_slower_and_draws_more_on_a_gpu_of_its_own_pays_for_what_it_does() -> None:
    found = throughput(trials_of(QUIET, always(clock_mhz=1770.0, power_w=690.0, held_back_pct=CAPPED)))
    assert found.verdict is Verdict.SLOWER
    assert "nobody else used the GPU" in found.provisos[0]


def test_the_same_where_nobody_could_see_whether_the_gpu_was_its_own_confounds() -> None:
    unseen = {Unseen.PROCESSES: "NVML: Insufficient Permissions"}
    capped = always(clock_mhz=1770.0, power_w=690.0, held_back_pct=CAPPED, unseen=unseen)
    found = throughput(trials_of(always(unseen=unseen), capped))
    assert found.verdict is Verdict.CONFOUNDED
    assert "held back by power for 85 %" in found.reasons[0]


def test_a_slower_arm_that_is_capped_while_it_draws_less_confounds() -> None:
    capped = always(clock_mhz=1500.0, power_w=400.0, held_back_pct=CAPPED)
    assert throughput(trials_of(QUIET, capped)).verdict is Verdict.CONFOUNDED


def test_a_slower_arm_that_was_too_hot_confounds_whatever_it_draws() -> None:
    hot = always(clock_mhz=1700.0, power_w=560.0, held_back_pct=HOT)
    found = throughput(trials_of(QUIET, hot))
    assert found.verdict is Verdict.CONFOUNDED
    assert "held back by heat for 60 %" in found.reasons[0]
    assert throughput(trials_of(QUIET, hot, change=1.0)).verdict is Verdict.CONFOUNDED


def test_a_baseline_that_was_too_hot_confounds_too() -> None:
    hot = always(clock_mhz=1700.0, power_w=560.0, held_back_pct=HOT)
    assert throughput(trials_of(hot, QUIET, change=1.2)).verdict is Verdict.CONFOUNDED


def test_clocks_that_somebody_lowered_during_one_arm_s_trials_confound() -> None:
    lowered = always(sm_clock_mhz=Spread(mean=1200.0, least=1200.0, most=1200.0))
    found = throughput(trials_of(QUIET, lowered))
    assert found.verdict is Verdict.CONFOUNDED
    assert "SM clock 1,200 MHz with async, 1,980 MHz with sync" in found.reasons[0]


def test_a_gpu_that_idles_more_has_lower_clocks_and_confounds_nothing() -> None:
    waits = always(clock_mhz=1100.0, power_w=200.0)
    assert throughput(trials_of(QUIET, waits)).verdict is Verdict.SLOWER


def test_lower_clocks_confound_where_the_counters_cannot_be_read() -> None:
    unread = {"held_back_pct": {}, "unseen": {Unseen.HELD_BACK: "Not Supported"}}
    found = throughput(trials_of(always(**unread), always(clock_mhz=1700.0, **unread)))
    assert found.verdict is Verdict.CONFOUNDED


@pytest.mark.parametrize("share", [9.0, 95.0])
def test_capped_for_another_share_of_the_time_at_the_same_clock_is_no_difference(share: float) -> None:
    capped = always(clock_mhz=1975.0, held_back_pct={"power": share})
    assert throughput(trials_of(QUIET, capped)).verdict is Verdict.SLOWER


def test_a_proviso_ends_the_sentence() -> None:
    spec = a_spec()
    resolved = resolve(spec)
    capped = always(clock_mhz=1770.0, power_w=690.0, held_back_pct=CAPPED)
    results = build_results(
        "1",
        spec=spec,
        resolved=resolved,
        plan=plan_trials(spec, resolved),
        status=Status.SUCCEEDED,
        arms=(),
        trials=trials_of(QUIET, capped, change=1.2),
    )
    assert results.summary.endswith("async does more work in a second, and would only be faster without.")
