"""What goes wrong with real engines, and what the user is told."""

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


def test_an_engine_core_killed_during_a_sync_batch_costs_its_block_only(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(600), plan={"blocks": 2})
    lab.measuring(experiment_id, trials_done=1)
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


def test_a_killed_worker_loses_its_experiment_and_a_killed_api_nothing(lab: Lab) -> None:
    lost = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(600), plan={"blocks": 100})
    following = lab.submit(model=TINY, arms=[SYNC], workload=long_workload(200), plan={"blocks": 100})
    lab.measuring(lost, trials_done=1)
    lab.worker().kill()
    ended = lab.ended(lost, within_s=60.0)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "worker_lost"

    done = lab.measuring(following)["progress"]["trials_done"]
    (api,) = [child for child in psutil.Process(lab.worker().ppid()).children() if "app.server" in child.cmdline()]
    api.kill()
    lab.measuring(following, trials_done=done + 2)

    assert lab.http.post(f"/v1/experiments/{following}/cancel").status_code == 202
    assert lab.ended(following, within_s=30.0)["status"] == "cancelled"
    for stopped in (lost, following):
        results = lab.results(stopped)
        assert not results["complete"]
        measured = [trial for trial in results["trials"] if trial["phase"] == "measured"]
        assert measured
        assert [trial["slot"] for trial in measured] == list(range(len(measured)))
        assert {trial["state"] for trial in measured} == {"succeeded"}
    assert lab.no_engine_is_left()
