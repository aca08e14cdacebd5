"""Somebody else on the GPU: a process that works there while the service measures.

`python -m benchmarks.gpu.neighbour WORK --during WHEN --url URL`. WORK: `matmuls` or `copies`. WHEN: `start` (before
any engine does, and ever after), `trials` (while any arm runs), or the name of an arm. It has a context on the GPU from
the first time it works, and goes when it is ended.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.client import Client
from app.errors import Unreachable
from app.spec.lifecycle import Status
from benchmarks.gpu.parts import FROM_THE_START, Neighbour, wants

_POLL_S = 0.05
_BURST_S = 0.1
_READY = b"ready\n"
_MATRIX, _COPIED = 6144, 2**29  # rows; values of two bytes
_ON_A_CPU = 64  # rows


@contextmanager
def beside(neighbour: Neighbour | None, url: str, log: Path) -> Iterator[None]:
    """The neighbour is there meanwhile; one that works from the start does so before this goes on."""
    if neighbour is None:
        yield
        return
    command = [sys.executable, "-m", __name__, neighbour.does, "--during", neighbour.during, "--url", url]
    with log.open("wb") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
        try:
            if process.stdout is None or process.stdout.readline() != _READY:
                raise subprocess.SubprocessError(f"the neighbour did not start: {log.read_text()[-500:]}")
            yield
        finally:
            process.kill()


def main() -> None:
    """Work when it is time to, until somebody ends it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.neighbour")
    parser.add_argument("work", choices=("matmuls", "copies"))
    parser.add_argument("--during", required=True)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    work: Callable[[], None] | None = None
    if options.during == FROM_THE_START:
        work = _worker(options.work)
        work()
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    with Client(options.url) as client:
        while True:
            if wants(options.during, progress_now(client)):
                work = work or _worker(options.work)
                work()
            else:
                time.sleep(_POLL_S)


def progress_now(client: Client) -> Mapping[str, Any] | None:
    """Of the experiment that runs; None where none does."""
    with suppress(Unreachable):
        running = next(iter(client.experiments(1, status=[Status.RUNNING])), None)
        return None if running is None else running["progress"]
    return None


def _worker(kind: str) -> Callable[[], None]:
    """A burst of the work, on the GPU where there is one."""
    import torch

    gpu = torch.cuda.is_available()
    options = {"device": "cuda" if gpu else "cpu", "dtype": torch.bfloat16}
    if kind == "matmuls":
        one = torch.randn((_MATRIX, _MATRIX) if gpu else (_ON_A_CPU, _ON_A_CPU), **options)
        product = torch.empty_like(one)

        def step() -> None:
            torch.matmul(one, one, out=product)
    else:
        source = torch.zeros(_COPIED if gpu else _ON_A_CPU, **options)
        target = torch.empty_like(source)

        def step() -> None:
            target.copy_(source)

    def burst() -> None:
        until = time.monotonic() + _BURST_S
        while time.monotonic() < until:
            for _ in range(10):
                step()
            if gpu:
                torch.cuda.synchronize()

    return burst


if __name__ == "__main__":
    main()
