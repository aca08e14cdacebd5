"""A child that does not outlive the deadline, nor leave children of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.gpu.budget import Deadline

_TAIL = 2000
_MARGIN_S = 10.0  # to end the processes and write what there is


def run_until(
    command: Sequence[str], environment: Mapping[str, str], out: Path, log: Path, deadline: Deadline
) -> dict[str, Any]:
    """Run it in our environment and this: its seconds, its exit code, and whether it was cut short.

    Both files are appended to.
    """
    began = time.monotonic()
    with out.open("ab") as stdout, log.open("ab") as stderr:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            process.wait(None if deadline.at_s is None else max(1.0, deadline.left_s - _MARGIN_S))
            cut_short = False
        except subprocess.TimeoutExpired:
            cut_short = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return {"process_s": time.monotonic() - began, "exit_code": process.wait(), "cut_short": cut_short}


def failure_of(ran: dict[str, Any], log: Path) -> dict[str, Any] | None:
    """Why a child failed, where it did and not for want of time."""
    if ran["cut_short"] or ran["exit_code"] == 0:
        return None
    return {"exit_code": ran["exit_code"], "log_tail": log.read_text(errors="replace")[-_TAIL:]}
