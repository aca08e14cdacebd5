"""What NVML says of a GPU, in plain readings: nothing here decides. What it withholds is None, or has a reason."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from app.measure.gpu import GpuLook, GpuProcess, GpuTotals, ProcessUse
from app.measure.records import Unseen

# Policies under which a GPU runs slower than it could; idling and a user's own clock setting are not among them.
_HELD_BACK = {
    "power": "NVML_PERF_POLICY_POWER",
    "heat": "NVML_PERF_POLICY_THERMAL",
    "board": "NVML_PERF_POLICY_BOARD_LIMIT",
    "reliability": "NVML_PERF_POLICY_RELIABILITY",
    "sync boost": "NVML_PERF_POLICY_SYNC_BOOST",
}


@dataclass
class Gpu:
    """A GPU as CUDA_VISIBLE_DEVICES names it."""

    name: str
    _nvml: ModuleType = field(repr=False)
    _handle: Any = field(repr=False)

    def read_identity(self) -> dict[str, object]:
        """What must be equal for two results to be comparable."""
        nvml, handle = self._nvml, self._handle
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return {
            "gpu": _decode(self._ask("nvmlDeviceGetName")),
            "gpu_memory_mib": None if memory is None else memory.total // 2**20,
            "gpu_driver": _decode(nvml.nvmlSystemGetDriverVersion()),
            "gpu_power_cap_w": _read(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle, scale=1e-3),
            "gpu_max_sm_clock_mhz": _read(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "gpu_max_memory_clock_mhz": _read(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
        }

    def look(self, *, pcie: bool) -> GpuLook:
        """The GPU now. `pcie`: its traffic too, which takes NVML 40 ms to count."""
        nvml, handle = self._nvml, self._handle
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return GpuLook(
            sm_clock_mhz=_read(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=_read(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            temperature_c=_read(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            memory_used_mib=None if memory is None else memory.used / 2**20,
            pcie_mb_s=self._read_pcie_mb_s() if pcie else None,
            processes=self._list_processes(),
        )

    def read_totals(self) -> GpuTotals:
        """What it counts since it was set up."""
        nvml, held = self._nvml, dict[str, float]()
        for reason, policy in _HELD_BACK.items():
            status = self._ask("nvmlDeviceGetViolationStatus", getattr(nvml, policy))
            if status is not None:
                held[reason] = status.violationTime * 1e-9
        energy = _read(nvml, "nvmlDeviceGetTotalEnergyConsumption", self._handle, scale=1e-3)
        return GpuTotals(energy_j=energy, held_back_s=held)

    def list_uses(self, since_us: int) -> tuple[ProcessUse, ...]:
        """Samples of what processes took since then (microseconds since the epoch); none where it cannot say."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since_us)
        except self._nvml.NVMLError:
            return ()
        return tuple(
            ProcessUse(at_us=one.timeStamp, pid=one.pid, sm_pct=float(one.smUtil), memory_pct=float(one.memUtil))
            for one in samples
            if one.timeStamp > since_us and one.pid
        )

    def find_unseen(self) -> dict[Unseen, str]:
        """What this driver, this GPU or our rights keep from us."""
        nvml, found = self._nvml, dict[Unseen, str]()
        mode = self._ask("nvmlDeviceGetMigMode")
        if mode is not None and mode[0]:
            reason = "the GPU is in MIG mode, in which NVML does not say who uses which part of it"
            return {Unseen.PROCESSES: reason, Unseen.SHARES: reason}
        for what, function, arguments in (
            (Unseen.PROCESSES, "nvmlDeviceGetComputeRunningProcesses", ()),
            (Unseen.SHARES, "nvmlDeviceGetProcessUtilization", (0,)),
            (Unseen.HELD_BACK, "nvmlDeviceGetViolationStatus", (nvml.NVML_PERF_POLICY_POWER,)),
        ):
            try:
                getattr(nvml, function)(self._handle, *arguments)
            except nvml.NVMLError as error:
                if error.value not in (nvml.NVML_SUCCESS, nvml.NVML_ERROR_NOT_FOUND):  # while nothing runs
                    found[what] = f"NVML: {error}"
        return found

    def read_util_pct(self, since_s: float, until_s: float) -> float | None:
        """Share of a time span (seconds since the epoch) in which any kernel ran: mean of NVML's buffered samples."""
        nvml = self._nvml
        try:
            _, samples = nvml.nvmlDeviceGetSamples(self._handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, int(since_s * 1e6))
        except nvml.NVMLError:
            return None
        values = [sample.sampleValue.uiVal for sample in samples if sample.timeStamp <= until_s * 1e6]
        return sum(values) / len(values) if values else None

    def _list_processes(self) -> tuple[GpuProcess, ...] | None:
        compute = self._ask("nvmlDeviceGetComputeRunningProcesses")
        if compute is None:
            return None
        every = {one.pid: one for one in (*(self._ask("nvmlDeviceGetGraphicsRunningProcesses") or ()), *compute)}
        return tuple(
            GpuProcess(pid, None if one.usedGpuMemory is None else one.usedGpuMemory / 2**20)
            for pid, one in every.items()
        )

    def _read_pcie_mb_s(self) -> float | None:
        nvml = self._nvml
        both = [
            _read(nvml, "nvmlDeviceGetPcieThroughput", self._handle, way, scale=1e-3)
            for way in (nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES)
        ]
        known = [one for one in both if one is not None]
        return sum(known) if len(known) == len(both) else None

    def _ask(self, function: str, *arguments: Any) -> Any:
        """One answer of NVML; None where this GPU, or our rights, do not give it."""
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


@dataclass(frozen=True)
class Gpus:
    """The GPUs of an arm, or why NVML tells nothing of them."""

    names: tuple[str, ...] = ()
    known: tuple[Gpu, ...] = ()
    trouble: str | None = None


def open_gpus(names: Sequence[str]) -> Gpus:
    """The GPUs that CUDA_VISIBLE_DEVICES names, by index or by UUID."""
    if not names:
        return Gpus()
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        return Gpus(tuple(names), trouble=f"NVML: {error}")
    try:
        nvml.nvmlInit()
        return Gpus(tuple(names), tuple(Gpu(name, nvml, _find_handle(nvml, name)) for name in names))
    except nvml.NVMLError as error:
        return Gpus(tuple(names), trouble=f"NVML: {error}")


def _find_handle(nvml: ModuleType, name: str) -> Any:
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _read(nvml: ModuleType, function: str, *arguments: Any, scale: float = 1.0) -> float | None:
    """One NVML reading; None where this GPU does not support it."""
    try:
        return float(getattr(nvml, function)(*arguments)) * scale
    except nvml.NVMLError:
        return None


def _decode(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
