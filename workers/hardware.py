"""What an arm's host is (identity), and how it is during a trial (conditions)."""

import importlib
import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from app.measure.records import Conditions

_SHORTEST_READABLE_S = 0.5  # the kernel counts CPU time in ticks of 10 ms
# Clock-event reasons that mean the GPU was held back; idling and a user's own clock setting do not.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80  # power cap, hardware slowdown, thermal (software, hardware), power brake


def hardware_identity(gpus: tuple[int, ...]) -> dict[str, object]:
    """What must be equal for two results to be comparable: processors, memory, system, GPUs (by NVML index)."""
    identity: dict[str, object] = {
        "cpu": _cpu_name(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gpu_count": len(gpus),
    }
    if gpus:
        nvml = _nvml()
        handle = nvml.nvmlDeviceGetHandleByIndex(gpus[0])
        identity |= {
            "gpu": _text(nvml.nvmlDeviceGetName(handle)),
            "gpu_memory_mib": nvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20,
            "gpu_driver": _text(nvml.nvmlSystemGetDriverVersion()),
            "gpu_power_cap_w": _read(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle, scale=1e-3),
            "gpu_max_sm_clock_mhz": _read(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "gpu_max_memory_clock_mhz": _read(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
        }
    return identity


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float  # seconds since the epoch, NVML's clock
    load: float
    host_cpu_s: float
    tree_cpu_s: float
    energy_j: float | None


class ConditionsMeter:
    """Reads the host before and after a trial, never during it.

    Utilisation during the trial comes from NVML's own sample buffer, power from its energy counter.
    """

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self._process = psutil.Process()
        self._nvml = _nvml() if gpus else None
        self._gpus = [self._nvml.nvmlDeviceGetHandleByIndex(gpu) for gpu in gpus] if self._nvml else []
        self._before = self._reading()

    def begin(self) -> None:
        """Read the host before a trial."""
        self._before = self._reading()

    def end(self) -> Conditions:
        """Read the host again and say what happened in between."""
        before, after = self._before, self._reading()
        elapsed = max(after.at_s - before.at_s, 1e-9)
        energy = None
        if before.energy_j is not None and after.energy_j is not None:
            energy = after.energy_j - before.energy_j
        gpu = self._gpu_conditions(before.at_s, after.at_s)
        return Conditions(
            load_before=before.load,
            load_after=after.load,
            other_cpu_pct=_others_cpu_pct(before, after),
            energy_j=energy,
            power_w=None if energy is None else energy / elapsed,
            **gpu,
        )

    def _reading(self) -> _Reading:
        times = psutil.cpu_times()
        return _Reading(
            at_s=time.time(),
            load=os.getloadavg()[0],
            host_cpu_s=sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0),
            tree_cpu_s=_tree_cpu_s(self._process),
            energy_j=self._energy_j(),
        )

    def _energy_j(self) -> float | None:
        if self._nvml is None:
            return None
        readings = [_read(self._nvml, "nvmlDeviceGetTotalEnergyConsumption", gpu, scale=1e-3) for gpu in self._gpus]
        known = [reading for reading in readings if reading is not None]
        return sum(known) if len(known) == len(readings) else None

    def _gpu_conditions(self, since_s: float, until_s: float) -> dict[str, Any]:
        nvml = self._nvml
        if nvml is None:
            return {}
        gpu = self._gpus[0]
        reasons = _read(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        return {
            "gpu_util_pct": _sampled(nvml, gpu, nvml.NVML_GPU_UTILIZATION_SAMPLES, since_s, until_s),
            # At the trial's end: the buffers of clock samples stay empty on recent GPUs.
            "sm_clock_mhz": _read(nvml, "nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": _read(nvml, "nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_MEM),
            "temperature_c": _read(nvml, "nvmlDeviceGetTemperature", gpu, nvml.NVML_TEMPERATURE_GPU),
            "memory_used_mib": nvml.nvmlDeviceGetMemoryInfo(gpu).used / 2**20,
            "throttled": None if reasons is None else bool(int(reasons) & _THROTTLED),
        }


def _others_cpu_pct(before: _Reading, after: _Reading) -> float | None:
    """CPU that other processes took, of all cores; None for a trial too short for the kernel's 10 ms ticks."""
    elapsed = after.at_s - before.at_s
    if elapsed < _SHORTEST_READABLE_S:
        return None
    others_s = (after.host_cpu_s - before.host_cpu_s) - (after.tree_cpu_s - before.tree_cpu_s)
    return max(0.0, 100.0 * others_s / (elapsed * (psutil.cpu_count() or 1)))


def gpu_indices(visible_devices: str | None) -> tuple[int, ...]:
    """NVML indices behind CUDA_VISIBLE_DEVICES; without NVML or with names instead of numbers, none."""
    if not visible_devices:
        return ()
    try:
        indices = tuple(int(device) for device in visible_devices.split(","))
        _nvml()
    except (ValueError, ImportError):
        return ()
    return indices


def _nvml() -> ModuleType:
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    return nvml


def _read(nvml: ModuleType, function: str, *arguments: Any, scale: float = 1.0) -> float | None:
    """One NVML reading; None where this GPU does not support it."""
    try:
        return float(getattr(nvml, function)(*arguments)) * scale
    except nvml.NVMLError:
        return None


def _sampled(nvml: ModuleType, gpu: Any, kind: int, since_s: float, until_s: float) -> float | None:
    """Mean of NVML's buffered samples within a time span."""
    try:
        _, samples = nvml.nvmlDeviceGetSamples(gpu, kind, int(since_s * 1e6))
    except nvml.NVMLError:
        return None
    values = [sample.sampleValue.uiVal for sample in samples if sample.timeStamp <= until_s * 1e6]
    return sum(values) / len(values) if values else None


def _tree_cpu_s(root: psutil.Process) -> float:
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _cpu_name() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
