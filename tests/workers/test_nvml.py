"""NVML's answers become plain readings, and its refusals reasons."""

import sys

import pytest

from app.measure.gpu import GpuProcess, ProcessUse
from app.measure.records import Unseen
from tests.support.recorded_nvml import NO_PERMISSION, NOT_SUPPORTED, NVMLError, RecordedNvml, a_sample
from workers.hardware import read_hardware
from workers.nvml import Gpu, open_gpus


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> RecordedNvml:
    """What `import pynvml` gives."""
    recorded = RecordedNvml(processes={100: 2**31, 4711: None})
    monkeypatch.setitem(sys.modules, "pynvml", recorded)
    return recorded


def the_gpu() -> Gpu:
    """The one GPU."""
    (gpu,) = open_gpus(["0"]).known
    return gpu


@pytest.mark.usefixtures("nvml")
def test_a_look_reads_clocks_memory_and_processes() -> None:
    look = the_gpu().look(pcie=True)
    assert (look.sm_clock_mhz, look.memory_clock_mhz, look.temperature_c) == (1740.0, 3201.0, 58.0)
    assert look.processes == (GpuProcess(100, 2048.0), GpuProcess(4711, None))
    assert look.pcie_mb_s == 3.0
    assert the_gpu().look(pcie=False).pcie_mb_s is None


@pytest.mark.usefixtures("nvml")
def test_totals_are_seconds_and_joules() -> None:
    totals = the_gpu().read_totals()
    assert (totals.energy_j, totals.held_back_s["power"], totals.held_back_s["heat"]) == (5000.0, 1.0, 0.0)


def test_samples_from_before_the_trial_do_not_count(nvml: RecordedNvml) -> None:
    nvml.samples = [a_sample(100, 10, 99), a_sample(100, 30, 55, 7), a_sample(0, 30, 1)]
    assert the_gpu().list_uses(20) == (ProcessUse(30, 100, 55.0, 7.0),)
    assert the_gpu().list_uses(30) == ()  # Not Found, as while nothing runs


@pytest.mark.usefixtures("nvml")
def test_a_gpu_that_tells_everything_hides_nothing() -> None:
    assert the_gpu().find_unseen() == {}


@pytest.mark.parametrize(
    ("function", "error", "what"),
    [
        ("nvmlDeviceGetComputeRunningProcesses", NO_PERMISSION, Unseen.PROCESSES),
        ("nvmlDeviceGetProcessUtilization", NO_PERMISSION, Unseen.SHARES),
        ("nvmlDeviceGetViolationStatus", NOT_SUPPORTED, Unseen.HELD_BACK),
    ],
)
def test_what_it_refuses_is_unseen_with_its_own_words(
    nvml: RecordedNvml, function: str, error: NVMLError, what: Unseen
) -> None:
    nvml.refused[function] = error
    assert the_gpu().find_unseen() == {what: f"NVML: {error}"}


def test_a_look_survives_refusals(nvml: RecordedNvml) -> None:
    for function in ("ComputeRunningProcesses", "MemoryInfo", "ClockInfo", "Temperature", "PcieThroughput"):
        nvml.refused[f"nvmlDeviceGet{function}"] = NO_PERMISSION
    look = the_gpu().look(pcie=True)
    assert (look.processes, look.memory_used_mib, look.sm_clock_mhz, look.pcie_mb_s) == (None, None, None, None)
    nvml.refused["nvmlDeviceGetViolationStatus"] = nvml.refused["nvmlDeviceGetTotalEnergyConsumption"] = NOT_SUPPORTED
    assert the_gpu().read_totals().held_back_s == {}


def test_in_mig_mode_nobody_knows_who_uses_which_part(nvml: RecordedNvml) -> None:
    nvml.mig = 1
    unseen = the_gpu().find_unseen()
    assert set(unseen) == {Unseen.PROCESSES, Unseen.SHARES}
    assert "MIG mode" in unseen[Unseen.PROCESSES]


@pytest.mark.usefixtures("nvml")
def test_gpus_may_be_named_by_uuid() -> None:
    assert [gpu.name for gpu in open_gpus(["MIG-1fc4", "GPU-22"]).known] == ["MIG-1fc4", "GPU-22"]


def test_without_rights_to_nvml_the_gpus_are_still_counted(nvml: RecordedNvml) -> None:
    nvml.refused["nvmlInit"] = NO_PERMISSION
    gpus = open_gpus(["0", "1"])
    assert (gpus.names, gpus.known, gpus.trouble) == (("0", "1"), (), "NVML: Insufficient Permissions")
    assert read_hardware(gpus)["gpu_count"] == 2


@pytest.mark.usefixtures("nvml")
def test_the_identity_of_a_gpu() -> None:
    identity = read_hardware(open_gpus(["0"]))
    assert (identity["gpu"], identity["gpu_power_cap_w"], identity["gpu_memory_mib"]) == ("NVIDIA H200", 700.0, 143_771)
