"""The host around a trial, read from real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

from app.judge.conditions import find_disturbance
from app.judge.neighbours import find_neighbour_disturbance
from app.measure.records import Conditions, Unseen
from tests.support.recorded_nvml import NO_PERMISSION, RecordedNvml, a_sample
from workers.meter import ConditionsMeter
from workers.nvml import Gpus, open_gpus
from workers.processes import ENGINE_MARK, WORKER_MARK

_TRIAL_S = 1.0
_BURN = "while True: pass"


@pytest.fixture
def strangers() -> Iterator[None]:
    """As many busy processes as there are cores, none of them a descendant of this one."""
    script = "".join(f"{sys.executable} -c '{_BURN}' >/dev/null 2>&1 & echo $!; " for _ in range(_cores()))
    shell = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True)
    yield
    for pid in shell.stdout.split():
        psutil.Process(int(pid)).kill()


def _cores() -> int:
    return psutil.cpu_count() or 1


@pytest.mark.usefixtures("strangers")
def test_a_trial_beside_busy_strangers_is_disturbed() -> None:
    meter = ConditionsMeter(Gpus())
    meter.begin()
    time.sleep(_TRIAL_S)
    assert "other processes took" in (find_disturbance(meter.end()) or "")


def test_what_the_engine_s_own_processes_burn_disturbs_nobody() -> None:
    meter = ConditionsMeter(Gpus())
    meter.begin()
    engine = psutil.Popen([sys.executable, "-c", _BURN])
    time.sleep(_TRIAL_S)
    conditions, own = meter.end(), engine.cpu_times()
    engine.kill()
    engine.wait()
    own_pct = 100 * (own.user + own.system) / (_TRIAL_S * _cores())
    assert own_pct > 10
    assert conditions.other_cpu_pct is not None
    assert conditions.other_cpu_pct <= 100 - own_pct + 10  # whatever else the host does meanwhile


def test_a_trial_too_short_for_the_kernel_s_clock_has_no_share() -> None:
    meter = ConditionsMeter(Gpus())
    meter.begin()
    assert meter.end().other_cpu_pct is None


# --- whose processes -----------------------------------------------------------------------------------------------


@contextmanager
def an_engine(monkeypatch: pytest.MonkeyPatch, script: str = _BURN, **marks: str) -> Iterator[psutil.Process]:
    """A process with these marks that is no child of ours; we drive the engine `mine` of the worker `ours`."""
    monkeypatch.setenv(WORKER_MARK, "ours")
    monkeypatch.setenv(ENGINE_MARK, "mine")
    environment = os.environ | {WORKER_MARK: "ours", ENGINE_MARK: "mine"} | marks
    shell = f"(exec -a VLLM::Worker '{sys.executable}' -c '{script}') >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["bash", "-c", shell], stdout=subprocess.PIPE, check=True, env=environment)
    process = psutil.Process(int(started.stdout))
    try:
        yield process
    finally:
        process.kill()


def measured(meter: ConditionsMeter, seconds: float = _TRIAL_S) -> Conditions:
    """A trial of which the engines are busy for a while."""
    meter.begin()
    time.sleep(seconds)
    return meter.end()


def test_the_engine_of_another_arm_is_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    with an_engine(monkeypatch, **{ENGINE_MARK: "another"}) as process:
        before = process.cpu_times().user
        conditions = measured(ConditionsMeter(Gpus()))
        used_pct = 100 * (process.cpu_times().user - before) / (_TRIAL_S * _cores())
    assert used_pct > 10
    assert conditions.idle_arms_cpu_pct is not None
    assert conditions.idle_arms_cpu_pct > 5


def test_a_trial_waits_for_another_arm_s_engine_to_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    spin = "import time; end = time.time() + 1.5\nwhile time.time() < end: pass\ntime.sleep(60)"
    with an_engine(monkeypatch, spin, **{ENGINE_MARK: "another"}):
        conditions = measured(ConditionsMeter(Gpus()))
    assert conditions.idle_arms_cpu_pct is not None
    assert conditions.idle_arms_cpu_pct < 10


def test_the_engine_of_another_experiment_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    with an_engine(monkeypatch, **{WORKER_MARK: "theirs", ENGINE_MARK: "theirs"}):
        conditions = measured(ConditionsMeter(Gpus()))
    assert conditions.idle_arms_cpu_pct == 0.0
    assert conditions.other_cpu_pct is not None
    assert conditions.other_cpu_pct > 10


# --- the engine's own processes ------------------------------------------------------------------------------------


def test_an_engine_that_is_stopped_disturbs_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    with an_engine(monkeypatch, "import time; time.sleep(60)") as process:
        meter = ConditionsMeter(Gpus())
        meter.begin()
        process.send_signal(signal.SIGSTOP)
        time.sleep(_TRIAL_S)
        process.send_signal(signal.SIGCONT)
        conditions = meter.end()
    assert conditions.stopped_pct is not None
    assert conditions.stopped_pct > 50
    assert "its engine was stopped" in (find_disturbance(replace(conditions, other_cpu_pct=None)) or "")


def test_the_priority_and_cores_of_an_engine_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with an_engine(monkeypatch, "import time; time.sleep(60)") as process:
        process.nice(15)
        process.cpu_affinity([0])
        found = {one.role: one for one in measured(ConditionsMeter(Gpus()), 0.1).engine_processes}
    assert (found["VLLM::Worker"].niceness, found["VLLM::Worker"].cores) == (15, "0")
    assert found["arm"].niceness == psutil.Process().nice()


# --- GPUs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> RecordedNvml:
    """A GPU with our own process on it."""
    recorded = RecordedNvml(processes={os.getpid(): 2**37})
    monkeypatch.setitem(sys.modules, "pynvml", recorded)
    return recorded


@pytest.mark.usefixtures("nvml")
def test_a_gpu_of_our_own_has_no_neighbours() -> None:
    conditions = measured(ConditionsMeter(open_gpus(["0"])), 0.6)
    (gpu,) = conditions.gpus
    assert (gpu.neighbours, gpu.unseen) == ((), {})
    assert (conditions.sm_clock_mhz, conditions.temperature_c) == (1740.0, 58.0)
    assert find_neighbour_disturbance(conditions) is None


def test_a_stranger_that_comes_during_a_trial_is_named_and_the_time_held_back_is_counted(
    nvml: RecordedNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    with an_engine(monkeypatch, "import time; time.sleep(60)", **{WORKER_MARK: "", ENGINE_MARK: ""}) as stranger:
        meter = ConditionsMeter(open_gpus(["0"]))
        meter.begin()
        nvml.processes[stranger.pid] = 2**31
        nvml.samples = [
            a_sample(pid, int(time.time() * 1e6), sm) for pid, sm in ((os.getpid(), 50), (stranger.pid, 48))
        ]
        nvml.held_ns += 400_000_000
        time.sleep(0.8)
        (gpu,) = meter.end().gpus
        name = stranger.name()
    (neighbour,) = gpu.neighbours
    assert (neighbour.pid, neighbour.name, neighbour.memory_mib) == (stranger.pid, name, 2048.0)
    assert neighbour.passing
    assert neighbour.sm_pct is not None
    assert neighbour.sm_pct > 20
    assert 30 < gpu.held_back_pct["power"] <= 50


@pytest.mark.usefixtures("nvml")
def test_looking_is_counted() -> None:
    meter = ConditionsMeter(open_gpus(["0"]))
    measured(meter, 0.6)
    assert 0.0 < meter.cpu_s < 0.1


def test_without_rights_to_nvml_a_trial_says_what_nobody_saw(nvml: RecordedNvml) -> None:
    nvml.refused["nvmlInit"] = NO_PERMISSION
    (gpu,) = measured(ConditionsMeter(open_gpus(["0"])), 0.1).gpus
    assert gpu.unseen == dict.fromkeys(Unseen, "NVML: Insufficient Permissions")
