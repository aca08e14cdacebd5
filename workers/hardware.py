"""What an arm's host is: what must be equal for two results to be comparable."""

import os
import platform
from contextlib import suppress
from pathlib import Path

import psutil

from workers.nvml import Gpus


def read_hardware(gpus: Gpus) -> dict[str, object]:
    """Processors, memory, system, GPUs."""
    identity: dict[str, object] = {
        "cpu": _read_cpu_name(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gpu_count": len(gpus.names),
    }
    if gpus.known:
        identity |= gpus.known[0].read_identity()
    return identity


def _read_cpu_name() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
