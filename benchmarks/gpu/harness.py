"""What the harness costs: `benchmarks.drivers`, one process per driver, its rows kept as they come."""

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.gpu.budget import COLD_HOST_S, GRAPH_S, START_S, Deadline
from benchmarks.gpu.process import failure_of, run_until

DRIVERS = {"e-llm": "llm", "e-async": "async_llm"}
_TRIAL_S = {4: 1.3, 32: 1.4, 256: 3.7}  # by samples, with 256 tokens each on an H200
PAIRS = 16
TOKENS = 256
GOAL = 0.995
GRAPH = "harness"
_WARM_PAIRS = 2
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


def estimate_s(known: Collection[str], sizes: int = len(_TRIAL_S)) -> float:
    """Seconds of one driver, or of its first sizes. `known`: graphs this host has compiled."""
    cold = (0.0 if known else COLD_HOST_S) + (0.0 if GRAPH in known else GRAPH_S)
    pair_s = 2 * sum(list(_TRIAL_S.values())[:sizes])
    return cold + START_S + (PAIRS + _WARM_PAIRS) * pair_s


def measure(part: str, folder: Path, options: argparse.Namespace, deadline: Deadline) -> dict[str, Any]:
    """Run one driver against its bare loop; the sizes that are done when the time is over count."""
    command = [sys.executable, "-m", "benchmarks.drivers", "--driver", DRIVERS[part]]
    command += ["--model", options.model or "qwen2.5-7b-shape", "--samples", *map(str, _TRIAL_S)]
    command += ["--tokens", str(options.tokens or TOKENS), "--pairs", str(options.blocks or PAIRS)]
    table, log = folder / "table.md", folder / "log.txt"
    ran = run_until(command, _ENVIRONMENT, table, log, deadline)
    return (
        {"about": f"{DRIVERS[part]} against a bare loop", "command": command[1:]}
        | ran
        | {"sizes": rows(table.read_text()), "failure": failure_of(ran, log)}
    )


def rows(table: str) -> list[dict[str, Any]]:
    """The rows of `benchmarks.drivers`."""
    found: list[dict[str, Any]] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 8 and cells[2].isdigit():
            low, high = (float(text) for text in cells[5].split(" to "))
            found.append(
                {
                    "driver": cells[0],
                    "samples_x_tokens": cells[1],
                    "pairs": int(cells[2]),
                    "bare_s": float(cells[3]),
                    "throughput_ratio": float(cells[4]),
                    "interval": [low, high],
                    "pair_sd": cells[6],
                    "harness_cpu": cells[7],
                    "goal_met": low >= GOAL,
                }
            )
    return found
