"""What comparing an arm with itself says."""

import pytest

from app.judge.noise import Noise, floor_of, noise_keys
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from tests.builders import a_resolved_arm, a_spec


def test_an_arm_has_the_same_keys_in_an_a_a_and_in_a_comparison() -> None:
    alone = a_spec(arms=[{"name": "one", "profile": "vllm-sync"}], calibrate=True, plan={"seed": 7})
    pair = a_spec()
    started = a_resolved_arm("one"), a_resolved_arm("sync")
    assert noise_keys(alone, resolve(alone).arms[0], started[0]) == noise_keys(pair, resolve(pair).arms[0], started[1])


def test_another_workload_or_engine_setting_is_another_noise() -> None:
    keys = {
        noise_keys(spec, resolve(spec).arms[0], None).settings
        for spec in (a_spec(), a_spec(engine={"max_num_seqs": 8}), a_spec(workload={"samples_per_prompt": 2}))
    }
    assert len(keys) == 3


def test_without_an_engine_only_the_settings_are_known() -> None:
    spec = a_spec()
    keys = noise_keys(spec, resolve(spec).arms[0], None)
    assert keys.fingerprint == keys.settings
    assert noise_keys(spec, resolve(spec).arms[0], a_resolved_arm("sync")).fingerprint != keys.settings


def test_noise_of_several_experiments_is_weighed_by_their_blocks() -> None:
    floor = floor_of([Noise(sd_pct=1.0, change_pct=-0.4, blocks=4), Noise(sd_pct=2.0, change_pct=0.2, blocks=10)])
    assert floor is not None
    assert floor.noise_pct == pytest.approx(((3 * 1.0 + 9 * 4.0) / 12) ** 0.5)
    assert floor.floor_pct == 0.4
    assert floor.experiments == 2


def test_no_experiments_are_no_floor() -> None:
    assert floor_of([]) is None


def test_calibrate_runs_the_arm_against_itself_on_an_engine_of_its_own() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}], calibrate=True)
    resolved = resolve(spec)
    assert [arm.name for arm in resolved.arms] == ["sync", "sync again"]
    assert plan_trials(spec, resolved).engines == (("sync",), ("sync again",))
