"""What engines leave on their host."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil

from workers import processes

HOLDER = """
import sys, time
from multiprocessing import resource_tracker, shared_memory
memory = shared_memory.SharedMemory(sys.argv[1] or None, create=not sys.argv[1], size=4096)
resource_tracker.unregister(memory._name, "shared_memory")  # as if the tracker had been killed too
print(memory.name, flush=True)
time.sleep(60)
"""


@contextmanager
def holding(name: str = "") -> Iterator[tuple[psutil.Process, Path]]:
    """A process that has a piece of shared memory mapped, and the file it is."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield psutil.Process(process.pid), Path("/dev/shm") / process.stdout.readline().strip()  # noqa: S108
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_shared_memory_of_a_killed_process_is_freed() -> None:
    with holding() as (process, file):
        found = processes.find_held_files([process])
        assert found == {file}
        processes.end((process,), grace_s=0.0)
        assert file.exists(), "the kernel does not do it"
        processes.free(found)
        assert not file.exists()


def test_shared_memory_that_somebody_else_has_mapped_stays() -> None:
    with holding() as (process, file), holding(file.name):
        found = processes.find_held_files([process])
        processes.end((process,), grace_s=0.0)
        processes.free(found)
        assert file.exists()
    processes.free(found)
    assert not file.exists()


def test_a_process_that_is_gone_has_nothing_mapped() -> None:
    with holding() as (process, file):
        processes.end((process,), grace_s=0.0)
        assert processes.find_held_files([process]) == frozenset()
        processes.free(frozenset({file}))
    assert not file.exists()


LISTENER = """
import socket, sys, time
held = socket.socket(socket.AF_UNIX)
held.bind(sys.argv[1])
held.listen()
print(flush=True)
time.sleep(60)
"""


def test_vllm_s_sockets_of_a_killed_process_are_removed_and_no_others(tmp_path: Path) -> None:
    ours, other = tmp_path / str(uuid4()), tmp_path / "raylet.sock"
    for path in (ours, other):
        with subprocess.Popen([sys.executable, "-c", LISTENER, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            found = processes.find_held_files([psutil.Process(process.pid)])
            processes.free(found)
            assert path.exists(), "it is in use"
            process.kill()
        processes.free(found)
    assert not ours.exists()
    assert other.exists()
