"""What an arm's host is."""

from workers.hardware import read_hardware
from workers.nvml import Gpus


def test_a_host_without_gpus_is_told_by_its_processor() -> None:
    identity = read_hardware(Gpus())
    assert identity["cpu"]
    assert identity["gpu_count"] == 0
    assert "gpu" not in identity
