"""What goes wrong with real engines, and what the user is told."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.support.crashes import shared_memory
from benchmarks.support.lab import Lab
from benchmarks.support.service import eventually
from workers.processes import read_title

pytestmark = pytest.mark.timeout(400)

TINY: dict[str, Any] = {"preset": "tiny-qwen2"}
SYNC: dict[str, Any] = {"name": "sync", "profile": "vllm-sync"}
ASYNC: dict[str, Any] = {"name": "async", "profile": "vllm-async"}


# More trials than any machine finishes while a test looks: whoever starts them cancels them.
ENDLESS: dict[str, Any] = {
    "workload": {
        "prompts": {"source": "synthetic", "count": 1, "tokens": {"distribution": "fixed", "value": 16}},
        "samples_per_prompt": 1,
        "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": 600}},
    },
    "plan": {"blocks": 200},
}
SIMULATED: dict[str, Any] = {"name": "simulated", "profile": "simulated"}


def fails(lab: Lab, code: str, within_s: float = 240.0, **spec: Any) -> dict[str, Any]:
    """The error of an experiment that must end with this one, and leave nothing; what it shared in memory is seen."""
    experiment_id = lab.submit(**spec)
    shared: set[str] = set()

    def look() -> dict[str, Any] | None:
        for process in lab.engine_processes():
            shared.update(shared_memory(process.pid))
        experiment = lab.experiment(experiment_id)
        return experiment if experiment["finished_at"] else None

    ended = eventually(look, within_s, 0.2)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == code, ended["error"]
    assert lab.no_engine_is_left()
    assert [path for path in shared if Path(path).exists()] == []
    error: dict[str, Any] = ended["error"]
    return error


def logs_left(lab: Lab) -> list[Path]:
    """Logs of engines that the service has kept."""
    return sorted((lab.data_dir / "engine-logs").glob("*"))


def test_seeded_prompts_that_do_not_fit_into_one_step_are_run_whole_in_every_arm(lab: Lab) -> None:
    workload = {
        "prompts": {"count": 20, "tokens": {"value": 500}},
        "samples_per_prompt": 2,
        "output": {"tokens": {"value": 8}},
    }
    experiment_id = lab.submit(model=TINY, arms=[SYNC, ASYNC], workload=workload, plan={"blocks": 1})
    assert lab.ended(experiment_id)["status"] == "succeeded"
    results = lab.results(experiment_id)
    assert {trial["state"] for trial in results["trials"]} == {"succeeded"}
    assert results["parity"]["undeclared"] == []
    assert results["fairness"]["equal"]
    assert logs_left(lab) == []
    asked = {"enable_chunked_prefill": True}
    error = fails(lab, "invalid_workload", model=TINY, arms=[ASYNC], workload=workload, engine=asked)
    assert "workload.sampling.per_request_seed: false" in error["detail"]


def test_a_core_that_dies_in_a_trial_tells_its_own_exception_and_the_end_of_its_log(lab: Lab) -> None:
    # As text, the prompts' length is known to the engine only: nobody can refuse them before the start.
    prompts = [f"{number} " + "rollout " * 300 for number in range(12)]
    before = logs_left(lab)
    error = fails(
        lab,
        "engine_died",
        model=TINY,
        arms=[SYNC],
        engine={"enable_chunked_prefill": True, "max_num_batched_tokens": 2048},
        workload={"prompts": {"source": "inline", "prompts": prompts}, "output": {"tokens": {"value": 8}}},
        plan={"blocks": 1},
    )
    assert error["arm"] == "sync"
    assert error["detail"].count("CPU Generator does not use offset") == 1
    assert "workload.sampling.per_request_seed: false" in error["detail"]
    assert "Traceback" in error["log_tail"]
    kept = [log for log in logs_left(lab) if log not in before]
    assert len(kept) == 2
    assert all("CPU Generator" in log.read_text() for log in kept)


def an_interpreter(lab: Lab, body: str) -> Path:
    """What the lab's settings call `made`."""
    path = lab.data_dir / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_that_cannot_run_an_engine_fails_before_a_start_with_what_is_needed(
    lab: Lab,
) -> None:
    made = an_interpreter(lab, """echo '{"python": "3.8.1", "ray": "2.9.0"}'""")
    for name, python, found in (
        ("missing", "/no/such/python", "No such file"),
        ("true", "/bin/true", "is no Python"),
        ("made", str(made), "Python 3.8.1"),
    ):
        arm = SIMULATED | {"environment": {"python": name}}
        error = fails(lab, "engine_start_failed", 90.0, model=TINY, arms=[arm])
        assert error["arm"] == "simulated"
        assert python in error["detail"]
        assert found in error["detail"]
        assert "needed: Python 3" in error["detail"]


def test_a_fifo_for_prompts_fails_at_once_and_the_queue_goes_on(lab: Lab) -> None:
    fifo = lab.data_dir.absolute() / "prompts" / "fifo.jsonl"
    fifo.parent.mkdir(exist_ok=True)
    os.mkfifo(fifo)
    workload = {"prompts": {"source": "file", "path": str(fifo)}}
    error = fails(lab, "invalid_workload", 30.0, model=TINY, arms=[SYNC], workload=workload)
    assert "FIFO" in error["detail"]
    assert lab.ended(lab.submit(model=TINY, arms=[SIMULATED]), 60.0)["status"] == "succeeded"


def slow_interpreter(lab: Lab) -> dict[str, Any]:
    an_interpreter(lab, "sleep 600")
    return {"environment": {"python": "made"}}


def cancel(lab: Lab, experiment_id: str) -> None:
    """It ends at once and leaves nothing."""
    assert lab.http.post(f"/v1/experiments/{experiment_id}/cancel").status_code == 202
    assert lab.ended(experiment_id, within_s=30.0)["status"] == "cancelled"
    assert lab.no_engine_is_left()


@pytest.mark.parametrize("step", ["checking an interpreter", "starting", "in a trial"])
def test_a_cancel_ends_whatever_runs(lab: Lab, step: str) -> None:
    arms: dict[str, dict[str, Any]] = {
        "checking an interpreter": slow_interpreter(lab),
        "starting": {"driver": {"start_s": 600}},
        "in a trial": {"driver": {"pace": 600}},
    }
    experiment_id = lab.submit(model=TINY, arms=[SIMULATED | arms[step]])
    eventually(lambda: is_at(lab, experiment_id, step), 60.0)
    cancel(lab, experiment_id)
    assert not asked_interpreters(lab)


def asked_interpreters(lab: Lab) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if str(lab.data_dir / "python") in read_title(process.pid)]


def is_at(lab: Lab, experiment_id: str, step: str) -> bool:
    match step:
        case "checking an interpreter":
            return bool(asked_interpreters(lab))
        case "starting":
            return bool(lab.engine_processes("ray::EngineActor"))
        case _:
            return (lab.experiment(experiment_id)["progress"] or {}).get("current") is not None


def test_a_start_that_outlives_the_experiment_s_time_names_the_arm_it_was_about(lab: Lab) -> None:
    slow = SIMULATED | {"driver": {"start_s": 600}}
    error = fails(lab, "timed_out", 60.0, model=TINY, arms=[slow], limits={"timeout_s": 8})
    assert error["detail"] == ("not done within limits.timeout_s (8 s), while the engine of simulated was waited for")


def test_a_model_s_folder_that_is_not_there_is_named(lab: Lab) -> None:
    path = str((lab.data_dir / "models" / "none").absolute())
    error = fails(lab, "engine_start_failed", model={"id": path}, arms=[SYNC])
    assert error["arm"] == "sync"
    assert f"model {path}: no such folder" in error["detail"]


def test_an_engine_that_cannot_fit_fails_with_vllm_s_own_reason_and_leaves_no_shared_memory(lab: Lab) -> None:
    arm = ASYNC | {"engine": {"num_gpu_blocks_override": 1, "max_model_len": 4096}}
    error = fails(lab, "engine_start_failed", model=TINY, arms=[arm])
    assert "cache blocks" in error["detail"]
    assert "Traceback" in error["log_tail"]


def states_of(lab: Lab, experiment_id: str) -> list[str]:
    """How the trials ended that an unfinished experiment has run; none is missing."""
    results = lab.results(experiment_id)
    assert not results["complete"]
    measured = [trial for trial in results["trials"] if trial["phase"] == "measured"]
    assert [trial["slot"] for trial in measured] == list(range(len(measured)))
    return [trial["state"] for trial in measured]


def failed_trial(lab: Lab, experiment_id: str) -> dict[str, Any]:
    """The one that has to come."""

    def look() -> list[dict[str, Any]]:
        return [trial for trial in lab.results(experiment_id)["trials"] if trial["state"] == "failed"]

    (failed,) = eventually(look, 60.0, 0.3)
    return failed


def test_an_engine_core_killed_during_a_sync_batch_costs_its_block_only(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[SYNC], **ENDLESS)
    lab.measuring(experiment_id, trials_done=1)
    (core,) = lab.engine_processes("VLLM::EngineCore")
    core.kill()
    failed = failed_trial(lab, experiment_id)
    assert "is gone" in failed["error"] or "died" in failed["error"]
    lab.measuring(experiment_id, trials_done=failed["slot"] + 2)
    cancel(lab, experiment_id)
    states = states_of(lab, experiment_id)
    assert states.pop(failed["slot"]) == "failed"
    assert set(states) == {"succeeded"}


def test_an_engine_that_hangs_without_dying_is_found_by_its_silence(lab: Lab) -> None:
    experiment_id = lab.submit(model=TINY, arms=[ASYNC], limits={"stall_timeout_s": 5}, **ENDLESS)
    lab.measuring(experiment_id)
    (worker,) = lab.engine_processes("VLLM::Worker")
    worker.suspend()
    assert "limits.stall_timeout_s" in failed_trial(lab, experiment_id)["error"]
    cancel(lab, experiment_id)


def test_a_killed_worker_loses_its_experiment_and_a_killed_api_nothing(lab: Lab) -> None:
    lost, following = (lab.submit(model=TINY, arms=[SYNC], **ENDLESS) for _ in range(2))
    lab.measuring(lost, trials_done=1)
    lab.worker().kill()
    ended = lab.ended(lost, within_s=60.0)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "worker_lost"

    done = lab.measuring(following)["progress"]["trials_done"]
    (api,) = [child for child in psutil.Process(lab.worker().ppid()).children() if "app.server" in child.cmdline()]
    api.kill()
    lab.measuring(following, trials_done=done + 2)
    cancel(lab, following)
    for stopped in (lost, following):
        assert set(states_of(lab, stopped)) == {"succeeded"}
