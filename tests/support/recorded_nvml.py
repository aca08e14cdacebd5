"""NVML as it answered on an H200, for tests of what reads it: functions and constants under their own names."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """What NVML raises: a code and its text."""

    def __init__(self, value: int, text: str) -> None:
        super().__init__(text)
        self.value = value


NOT_SUPPORTED = NVMLError(3, "Not Supported")
NO_PERMISSION = NVMLError(4, "Insufficient Permissions")
NOT_FOUND = NVMLError(6, "Not Found")


@dataclass
class RecordedNvml:
    """One GPU. `refused`: what a function raises instead; `processes` and `held_ns` may be changed meanwhile."""

    refused: dict[str, NVMLError] = field(default_factory=dict)
    processes: dict[int, int | None] = field(default_factory=dict)  # pid -> bytes
    samples: list[Any] = field(default_factory=list)
    held_ns: int = 1_000_000_000
    energy_mj: int = 5_000_000
    mig: int = 0
    NVML_SUCCESS, NVML_ERROR_NOT_FOUND = 0, 6
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_GPU_UTILIZATION_SAMPLES = 1
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL, NVML_PERF_POLICY_SYNC_BOOST = 0, 1, 2
    NVML_PERF_POLICY_BOARD_LIMIT, NVML_PERF_POLICY_RELIABILITY = 3, 5

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "NVMLError": NVMLError,
            "nvmlInit": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "580.159.04",
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
            "nvmlDeviceGetName": lambda _: b"NVIDIA H200",
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=143_771 * 2**20, used=118_303 * 2**20),
            "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
            "nvmlDeviceGetMaxClockInfo": lambda _, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetClockInfo": lambda _, kind: {1: 1740, 2: 3201}[kind],
            "nvmlDeviceGetTemperature": lambda _, __: 58,
            "nvmlDeviceGetTotalEnergyConsumption": lambda _: self.energy_mj,
            "nvmlDeviceGetViolationStatus": lambda _, kind: SimpleNamespace(violationTime=0 if kind else self.held_ns),
            "nvmlDeviceGetPcieThroughput": lambda _, __: 1500,
            "nvmlDeviceGetMigMode": lambda _: [self.mig, self.mig],
            "nvmlDeviceGetComputeRunningProcesses": lambda _: self._listed(),
            "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
            "nvmlDeviceGetProcessUtilization": lambda _, since: self._sampled(since),
            "nvmlDeviceGetSamples": lambda _, __, ___: (0, []),
        }
        if name in self.refused:
            return self._refuse(self.refused[name])
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def _listed(self) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in self.processes.items()]

    def _sampled(self, since_us: int) -> list[Any]:
        found = [one for one in self.samples if one.timeStamp > since_us]
        if not found:
            raise NOT_FOUND
        return found

    @staticmethod
    def _refuse(error: Exception) -> Any:
        def refuse(*_: Any) -> Any:
            raise error

        return refuse


def a_sample(pid: int, at_us: int, sm: int, memory: int = 0) -> Any:
    """What a process took, as NVML writes it."""
    return SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=sm, memUtil=memory)
