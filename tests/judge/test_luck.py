"""The luck of a start: what a verdict may say that rests on one, on several, or on one that is known."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from app.judge.comparison import Comparison, compare, should_stop_early
from app.judge.luck import NoiseFloor
from app.judge.noise import Noise, combine_noise
from app.judge.results import build_results
from app.judge.verdict import StartLuck, Verdict
from app.measure.metrics import TrialSummary
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.stats.starts import StartValue
from tests.support.builders import a_resolved_arm, a_simulated_spec, a_spec, a_trial

ONE_ENGINE: list[dict[str, Any]] = [
    {"name": "final", "profile": "vllm-async"},
    {"name": "delta", "profile": "vllm-async", "driver": {"output_kind": "delta"}},
]
PROVISO = "This holds for these engine processes; another start may differ."


def run_of(spec: Experiment, luck: Sequence[float], change: float = 0.0, noise: float = 0.001) -> list[TrialSummary]:
    """The second arm differs by `change`, and by `luck` on each start; logs."""
    resolved, rng = resolve(spec), random.Random(3)
    return [
        a_trial(
            throughput=100
            * math.exp(
                rng.gauss(0, noise)
                + (0.0 if trial.arm == resolved.baseline else change + luck[trial.start % len(luck)])
            ),
            planned=trial,
        )
        for trial in plan_trials(spec, resolved).measured
    ]


def compared(spec: Experiment, trials: Sequence[TrialSummary], noise: NoiseFloor | None = None) -> Comparison:
    return compare(spec, resolve(spec), trials, (), noise=noise)[0]


def known(*log_ratios: float, key: str = "output_throughput") -> NoiseFloor:
    floor = combine_noise([Noise(0.1, 0.0, 6, {key: tuple(StartValue(one, 6, 0.001) for one in log_ratios)})])
    assert floor is not None
    return floor


def sentence(spec: Experiment, trials: Sequence[TrialSummary], noise: NoiseFloor | None = None) -> str:
    resolved = resolve(spec)
    return build_results(
        "an-id",
        spec=spec,
        resolved=resolved,
        plan=plan_trials(spec, resolved),
        status=Status.SUCCEEDED,
        arms=[a_resolved_arm(arm.name, {}) for arm in resolved.arms],
        trials=trials,
        noise=noise,
    ).summary


# --- one start -----------------------------------------------------------------------------------------------------


def test_a_verdict_on_one_start_says_that_it_speaks_of_these_processes() -> None:
    trials = run_of(a_spec(), [0.0], change=-0.05)
    assert compared(a_spec(), trials).start_luck is StartLuck.UNKNOWN
    assert sentence(a_spec(), trials).endswith(PROVISO)
    assert sentence(a_spec(), run_of(a_spec(), [0.0])).endswith(f"same within 2 %. {PROVISO}")


def test_arms_on_one_engine_share_its_start_and_need_no_proviso() -> None:
    spec = a_spec(arms=ONE_ENGINE)
    trials = run_of(spec, [0.0], change=-0.05)
    assert compared(spec, trials, known(0.1, -0.1)).start_luck is StartLuck.SHARED_ENGINE
    assert compared(spec, trials, known(0.1, -0.1)).verdict is Verdict.SLOWER
    assert PROVISO not in sentence(spec, trials)


def test_engines_that_restart_for_every_trial_do_not_share_a_start() -> None:
    spec = a_spec(arms=ONE_ENGINE, plan={"residency": "restart"})
    found = compared(spec, run_of(spec, [0.0], change=-0.05))
    assert (found.start_luck, found.starts, found.start_sd_pct) == (StartLuck.SEVERAL_STARTS, 6, None)


def test_simulated_arms_have_no_start() -> None:
    spec = a_simulated_spec()
    trials = run_of(spec, [0.0], change=-0.05)
    assert compared(spec, trials).start_luck is None
    assert PROVISO not in sentence(spec, trials)


# --- several starts ------------------------------------------------------------------------------------------------


def test_a_lucky_start_is_a_verdict_on_one_start_and_none_on_several() -> None:
    one = a_spec(plan={"blocks": 6})
    assert compared(one, run_of(one, [-0.03])).verdict is Verdict.SLOWER
    several = a_spec(plan={"blocks": 8, "starts": 4})
    found = compared(several, run_of(several, [-0.03, 0.02, 0.03, -0.02]))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.starts, found.start_luck) == (4, StartLuck.SEVERAL_STARTS)
    assert found.start_sd_pct == pytest.approx(100 * math.sqrt((0.03**2 + 0.02**2) * 2 / 3), abs=0.2)
    assert found.detectable_effect_pct is not None
    assert found.detectable_effect_pct > 3


def test_a_difference_that_every_start_shows_is_proven_without_a_proviso() -> None:
    spec = a_spec(plan={"blocks": 8, "starts": 4})
    trials = run_of(spec, [0.003, -0.003, 0.002, -0.002], change=-0.05)
    assert compared(spec, trials).verdict is Verdict.SLOWER
    assert "8 blocks on 4 starts)" in sentence(spec, trials)
    assert PROVISO not in sentence(spec, trials)


def test_starts_that_do_not_decide_say_how_many_would() -> None:
    spec = a_spec(plan={"blocks": 8, "starts": 4})
    trials = run_of(spec, [-0.03, 0.02, 0.03, -0.02])
    found = compared(spec, trials)
    assert found.blocks_needed is not None
    assert found.blocks_needed > 8
    assert "8 blocks on 4 starts reliably show only" in sentence(spec, trials)
    assert f"about {found.blocks_needed} on {math.ceil(found.blocks_needed / 2)} starts" in sentence(spec, trials)


def test_several_starts_of_one_engine_are_blocks_like_any_other() -> None:
    spec = a_spec(arms=ONE_ENGINE, plan={"blocks": 8, "starts": 4})
    found = compared(spec, run_of(spec, [0.0], change=-0.05))
    assert (found.start_luck, found.start_sd_pct, found.analysis) == (StartLuck.SHARED_ENGINE, None, "narrower")


# --- a known spread ------------------------------------------------------------------------------------------------


def test_a_known_spread_takes_a_verdict_that_luck_may_explain() -> None:
    trials = run_of(a_spec(), [-0.03])
    assert compared(a_spec(), trials).verdict is Verdict.SLOWER
    found = compared(a_spec(), trials, known(0.02, -0.03, 0.02))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.start_luck is StartLuck.KNOWN_SPREAD
    assert found.known_spread is not None
    assert found.known_spread.starts == 3
    assert found.blocks_needed is None
    assert "equal engines differ by their start" in found.reasons[0]
    assert "several starts (plan.starts) can show more" in sentence(a_spec(), trials, known(0.02, -0.03, 0.02))


def test_a_known_spread_leaves_a_verdict_that_luck_cannot_explain_and_needs_no_proviso() -> None:
    trials = run_of(a_spec(), [0.0], change=-0.2)
    noise = known(0.004, -0.005, 0.003)
    assert compared(a_spec(), trials, noise).verdict is Verdict.SLOWER
    assert PROVISO not in sentence(a_spec(), trials, noise)


def test_what_is_known_of_one_metric_says_nothing_of_another() -> None:
    found = compared(a_spec(), run_of(a_spec(), [-0.03]), known(0.02, -0.03, key="duration_s"))
    assert (found.start_luck, found.verdict) == (StartLuck.UNKNOWN, Verdict.SLOWER)


def test_an_experiment_does_not_stop_early_on_what_luck_may_explain() -> None:
    spec = a_spec(plan={"blocks": 10, "looks": [6]})
    trials = [trial for trial in run_of(spec, [-0.03]) if trial.planned.block < 6]
    resolved = resolve(spec)
    plan = plan_trials(spec, resolved)
    assert should_stop_early(spec, resolved, plan, trials)
    assert not should_stop_early(spec, resolved, plan, trials, known(0.02, -0.03, 0.02))


def test_a_comparison_of_an_earlier_version_is_still_read() -> None:
    document = compared(a_spec(), run_of(a_spec(), [0.0])).model_dump(mode="json")
    for key in ("starts", "start_luck", "start_sd_pct", "known_spread"):
        del document[key]
    for block in document["blocks"]:
        del block["start"]
    assert Comparison.model_validate(document).start_luck is None
