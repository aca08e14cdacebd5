"""What goes wrong with real engines, and what the user is told."""

import signal
from typing import Any

import psutil
import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.timeout(400)

TINY: dict[str, Any] = {"preset": "tiny-qwen2"}
SYNC: dict[str, Any] = {"name": "sync", "profile": "vllm-sync"}
ASYNC: dict[str, Any] = {"name": "async", "profile": "vllm-async"}


def long_workload(tokens: int) -> dict[str, Any]:
    """One prompt, so many tokens: a trial that lasts."""
    return {
        "prompts": {"source": "synthetic", "count": 1, "tokens": {"distribution": "fixed", "value": 16}},
        "samples_per_prompt": 1,
        "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": tokens}},
    }


def test_a_bad_model_path_fails_with_vllm_s_own_reason(lab: Lab) -> None:
    ended = lab.ended(lab.submit(model={"id": "/no/such/model"}, arms=[SYNC]))
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "engine_start_failed"
    assert ended["error"]["arm"] == "sync"
    assert "/no/such/model" in ended["error"]["detail"]
    assert lab.no_engine_is_left()


def test_an_engine_that_cannot_fit_fails_with_vllm_s_own_reason(lab: Lab) -> None:
    arm = ASYNC | {"engine": {"num_gpu_blocks_override": 1, "max_model_len": 4096}}
    ended = lab.ended(lab.submit(model=TINY, arms=[arm]))
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "engine_start_failed"
    assert "cache blocks" in ended["error"]["detail"]
    assert lab.no_engine_is_left()


def test_a_running_experiment_is_cancelled_and_keeps_its_finished_trials(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(400), plan={"blocks": 100})
    lab.measuring(experiment_id, trials_done=1)
    assert lab.http.post(f"/v1/experiments/{experiment_id}/cancel").status_code == 202
    assert lab.ended(experiment_id, within_s=30.0)["status"] == "cancelled"
    results = lab.results(experiment_id)
    assert not results["complete"]
    assert any(trial["state"] == "succeeded" for trial in results["trials"])
    assert lab.no_engine_is_left()


def test_an_engine_core_killed_during_a_sync_batch_costs_its_block_only(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(600), plan={"blocks": 3})
    lab.measuring(experiment_id)
    (core,) = lab.engine_processes("VLLM::EngineCore")
    core.kill()
    assert lab.ended(experiment_id)["status"] == "succeeded"
    states = [trial["state"] for trial in lab.results(experiment_id)["trials"]]
    assert states.count("failed") == 1
    failed = next(trial for trial in lab.results(experiment_id)["trials"] if trial["state"] == "failed")
    assert "is gone" in failed["error"] or "died" in failed["error"]
    assert lab.no_engine_is_left()


def test_an_engine_that_hangs_without_dying_is_found_by_its_silence(lab: Lab) -> None:
    experiment_id = lab.submit(
        model=TINY,
        arms=[ASYNC],
        workload=long_workload(600),
        plan={"blocks": 2},
        limits={"stall_timeout_s": 5},
    )
    lab.measuring(experiment_id)
    (worker,) = lab.engine_processes("VLLM::Worker")
    worker.suspend()
    assert lab.ended(experiment_id)["status"] == "succeeded"
    failed = [trial for trial in lab.results(experiment_id)["trials"] if trial["state"] == "failed"]
    assert len(failed) == 1
    assert "limits.stall_timeout_s" in failed[0]["error"]
    assert lab.no_engine_is_left()


def test_a_worker_killed_in_mid_run_is_reported_and_the_next_experiment_runs(lab: Lab) -> None:
    lost = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(600), plan={"blocks": 100})
    following = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(16), plan={"blocks": 2})
    lab.measuring(lost)
    lab.worker().send_signal(signal.SIGKILL)
    ended = lab.ended(lost, within_s=60.0)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "worker_lost"
    assert lab.ended(following)["status"] == "succeeded"
    assert lab.no_engine_is_left()


def test_the_api_killed_in_mid_run_comes_back_and_nothing_is_lost(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[ASYNC], workload=long_workload(200), plan={"blocks": 3})
    lab.measuring(experiment_id)
    (api,) = [child for child in psutil.Process(lab.worker().ppid()).children() if "app.server" in child.cmdline()]
    api.kill()
    assert lab.ended(experiment_id)["status"] == "succeeded"
    assert len(lab.results(experiment_id)["trials"]) == 4
