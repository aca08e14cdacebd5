"""A child that does not outlive the deadline, nor leave children of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.gpu.budget import Deadline

_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}  # as the service's engines
_MARGIN_S = 10.0  # to end the processes and write what there is


def run_until(command: Sequence[str], out: Path, log: Path, deadline: Deadline) -> dict[str, Any]:
    """Run it; its seconds, its exit code, and whether it was cut short. Both files are appended to."""
    began = time.monotonic()
    with out.open("ab") as stdout, log.open("ab") as stderr:
        process = subprocess.Popen(
            command, env=os.environ | _QUIET, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            process.wait(None if deadline.at_s is None else max(1.0, deadline.left_s - _MARGIN_S))
            cut_short = False
        except subprocess.TimeoutExpired:
            cut_short = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return {"process_s": time.monotonic() - began, "exit_code": process.wait(), "cut_short": cut_short}
