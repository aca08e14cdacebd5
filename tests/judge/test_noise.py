"""What comparing an arm with itself says."""

import math
from collections.abc import Mapping, Sequence

import pytest
from scipy import stats

from app.judge.noise import Noise, build_noise_keys, combine_noise, measure_noise
from app.judge.results import Results, build_results
from app.judge.verdict import Verdict
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.stats.starts import StartValue
from tests.support.builders import a_resolved_arm, a_spec, a_trial


def test_an_arm_has_the_same_keys_in_an_a_a_and_in_a_comparison() -> None:
    alone = a_spec(arms=[{"name": "one", "profile": "vllm-sync"}], calibrate=True, plan={"seed": 7})
    pair = a_spec()
    started = a_resolved_arm("one"), a_resolved_arm("sync")
    assert build_noise_keys(alone, resolve(alone).arms[0], started[0]) == build_noise_keys(
        pair, resolve(pair).arms[0], started[1]
    )


def test_another_workload_or_engine_setting_is_another_noise() -> None:
    keys = {
        build_noise_keys(spec, resolve(spec).arms[0], None).settings
        for spec in (a_spec(), a_spec(engine={"max_num_seqs": 8}), a_spec(workload={"samples_per_prompt": 2}))
    }
    assert len(keys) == 3


def test_without_an_engine_only_the_settings_are_known() -> None:
    spec = a_spec()
    keys = build_noise_keys(spec, resolve(spec).arms[0], None)
    assert keys.fingerprint == keys.settings
    assert build_noise_keys(spec, resolve(spec).arms[0], a_resolved_arm("sync")).fingerprint != keys.settings


def test_noise_of_several_experiments_is_weighed_by_their_blocks() -> None:
    floor = combine_noise([Noise(sd_pct=1.0, change_pct=-0.4, blocks=4), Noise(sd_pct=2.0, change_pct=0.2, blocks=10)])
    assert floor is not None
    assert floor.noise_pct == pytest.approx(((3 * 1.0 + 9 * 4.0) / 12) ** 0.5)
    assert (floor.experiments, floor.starts) == (2, 2)


def test_the_floor_is_what_95_percent_of_starts_stay_below_and_not_the_largest_change_seen() -> None:
    values = tuple(StartValue(one, 3, 0.001) for one in (0.001, -0.002, 0.001, 0.004, -0.003, 0.002))
    floor = combine_noise([Noise(0.1, 0.4, 18, {"output_throughput": values})])
    assert floor is not None
    mean_square = sum(value.log_ratio**2 for value in values) / 6
    assert floor.floor_pct == pytest.approx(100 * math.expm1(stats.t.ppf(0.975, 6) * math.sqrt(mean_square)))
    low, high = floor.spreads["output_throughput"].between_interval_pct
    assert low < floor.spreads["output_throughput"].between_pct < high


def test_one_start_is_no_floor_and_several_experiments_are_several_starts() -> None:
    one = Noise(sd_pct=0.1, change_pct=0.3, blocks=6)
    alone, twice = combine_noise([one]), combine_noise([one, one])
    assert alone is not None
    assert twice is not None
    assert (alone.floor_pct, alone.spreads) == (None, {})
    assert twice.floor_pct is not None
    assert twice.spreads["output_throughput"].starts == 2


def test_an_a_a_experiment_leaves_what_each_of_its_starts_gave() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}], calibrate=True, plan={"blocks": 6, "starts": 3})
    found = measure_noise(results_of(spec, luck=(0.01, -0.02, 0.0)))
    assert found is not None
    assert found.starts is not None
    assert [value.log_ratio for value in found.list_values("output_throughput")] == pytest.approx(
        [0.01, -0.02, 0.0], abs=1e-9
    )
    assert [value.log_ratio for value in found.list_values("duration_s")] == pytest.approx([-0.01, 0.02, 0.0], abs=1e-9)
    assert [value.blocks for value in found.list_values("output_throughput")] == [2, 2, 2]


def test_a_confounded_a_a_experiment_feeds_no_floor() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}], calibrate=True, plan={"blocks": 6, "starts": 3})
    unlike = {"sync": {"engine.seed": 0}, "sync again": {"engine.seed": 1}}
    results = results_of(spec, luck=(0.01, -0.02, 0.0), configs=unlike)
    assert results.comparisons[0].verdict is Verdict.CONFOUNDED
    assert measure_noise(results) is None


def results_of(
    spec: Experiment, luck: Sequence[float], configs: Mapping[str, Mapping[str, object]] | None = None
) -> Results:
    """An A/A experiment whose second engine is off by `luck`, a log, on each start."""
    resolved = resolve(spec)
    plan = plan_trials(spec, resolved)
    return build_results(
        "an-id",
        spec=spec,
        resolved=resolved,
        plan=plan,
        status=Status.SUCCEEDED,
        arms=[a_resolved_arm(arm.name, (configs or {}).get(arm.name, {})) for arm in resolved.arms],
        trials=[
            a_trial(throughput=100 * math.exp(0 if trial.arm == "sync" else luck[trial.start]), planned=trial)
            for trial in plan.measured
        ],
    )


def test_no_experiments_are_no_floor() -> None:
    assert combine_noise([]) is None


def test_calibrate_runs_the_arm_against_itself_on_an_engine_of_its_own() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}], calibrate=True)
    resolved = resolve(spec)
    assert [arm.name for arm in resolved.arms] == ["sync", "sync again"]
    assert plan_trials(spec, resolved).engines == (("sync",), ("sync again",))
