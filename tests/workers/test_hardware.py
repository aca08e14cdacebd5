"""The host around a trial, read from real processes."""

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from app.judge.conditions import disturbance
from workers.hardware import ConditionsMeter, hardware_identity

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
    meter = ConditionsMeter(())
    meter.begin()
    time.sleep(_TRIAL_S)
    assert "other processes took" in (disturbance(meter.end()) or "")


def test_what_the_engine_s_own_processes_burn_disturbs_nobody() -> None:
    meter = ConditionsMeter(())
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
    meter = ConditionsMeter(())
    meter.begin()
    assert meter.end().other_cpu_pct is None


def test_a_host_without_gpus_is_told_by_its_processor() -> None:
    identity = hardware_identity(())
    assert identity["cpu"]
    assert identity["gpu_count"] == 0
    assert "gpu" not in identity
