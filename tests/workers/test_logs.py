"""What engines print, and that it does not pile up."""

import os
import subprocess
import sys
from pathlib import Path

from workers import logs

PRINTER = """
import os, subprocess, sys
from pathlib import Path
from workers.logs import OwnLog
out = os.dup(1)
log = OwnLog(Path(sys.argv[1]))
print("before")
log.begin()
print("of the process")
subprocess.run(["sh", "-c", "echo of its child; echo of its stderr >&2"], check=True)
if len(sys.argv) > 2:
    log.path.unlink()
os.write(out, f"{log.path}\\n{log.read()}".encode())
"""


def printed(log: Path, *more: str, temporary: Path | None = None) -> tuple[str, list[str]]:
    environment = os.environ | ({"TMPDIR": str(temporary)} if temporary else {})
    command = [sys.executable, "-c", PRINTER, str(log), *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    path, *lines = done.stdout.splitlines()
    return path, lines


def test_a_process_reads_what_it_and_its_children_printed_since_the_beginning_of_interest(tmp_path: Path) -> None:
    log = tmp_path / "new" / "a.log"
    assert printed(log) == (str(log), ["of the process", "of its child", "of its stderr"])
    assert log.read_text().splitlines()[0] == "before"
    assert log.stat().st_mode & 0o077 == 0


def test_a_log_whose_file_was_removed_can_still_be_read_by_its_own_process(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert "of its child" in printed(log, "unlink")[1]
    assert not log.exists()


def test_a_host_without_the_worker_s_directory_keeps_logs_in_its_temporary_one(tmp_path: Path) -> None:
    path, lines = printed(Path("/proc/no/such/place/a.log"), temporary=tmp_path)
    assert "of its child" in lines
    assert Path(path) == tmp_path / "rollout-lab-logs" / "a.log"


def test_another_process_reads_a_log_from_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("before\n")
    begin = logs.read_size(log)
    log.write_text("before\nafter\n")
    assert logs.read(log, begin) == "after\n"
    assert logs.read(tmp_path / "elsewhere.log", 0) is None
    assert logs.read_size(tmp_path / "elsewhere.log") == 0


def test_of_a_long_log_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x" * (3 << 20) + "the end")
    found = logs.read(log, 0)
    assert found is not None
    assert len(found) == 1 << 20
    assert found.endswith("the end")


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    for number in range(30):
        log = tmp_path / f"{number}.log"
        log.touch()
        os.utime(log, (number, number))
    logs.prune(tmp_path)
    assert {log.name for log in tmp_path.iterdir()} == {f"{number}.log" for number in range(10, 30)}


def test_logs_take_no_more_than_64_mib(tmp_path: Path) -> None:
    for number, mib in enumerate((1, 40, 20, 5)):
        log = tmp_path / f"{number}.log"
        with log.open("wb") as file:
            file.truncate(mib << 20)
        os.utime(log, (number, number))
    logs.prune(tmp_path)
    assert {log.name for log in tmp_path.iterdir()} == {"2.log", "3.log"}
