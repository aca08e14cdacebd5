"""What watching costs: `python -m benchmarks.pollers [SPEC]`, some minutes.

50 pollers ask a real service for the results of the experiment that runs, each once a second and with the entity tag of
its last answer. They pause for every second trial or so, in the order ABBA, and a pair of trials is compared by its
output tokens per second of the trial's own time. Goal: with pollers, at least 97 % of the throughput without. The spec
must have one arm; without one the arm is simulated, and what pollers can cost it is the time between its sleeps.
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

from app.measure.metrics import TrialSummary
from app.settings import Settings
from app.spec.document import load
from app.spec.experiment import Experiment
from app.spec.plan import Phase
from app.stats.estimate import NoEstimate, to_ratio
from app.stats.paired import compare_paired
from app.store import trials
from app.store.database import Database
from app.store.ids import ExperimentId
from benchmarks.load import Connections, request
from benchmarks.support.lab import running_lab

POLLERS, PERIOD_S, CONFIDENCE = 50, 1.0, 0.95
_LOOK_S = 0.05  # how soon pollers notice that a trial has begun
SIMULATED: dict[str, Any] = {
    "model": {"preset": "tiny-qwen2"},
    "arms": [{"name": "only", "profile": "simulated", "driver": {"seconds_per_token": 0.03, "pace": 1.0}}],
    "plan": {"blocks": 24},
}


class Pollers:
    """Clients that poll unless they are told to pause."""

    def __init__(self, connections: Connections, path: str) -> None:
        self._connections, self._path = connections, path
        self.active = asyncio.Event()
        self.statuses: Counter[int] = Counter()
        self.took_s: list[float] = []

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(*(self._poll(random.random() * PERIOD_S) for _ in range(POLLERS)))  # noqa: S311 - a phase

    async def _poll(self, phase_s: float) -> None:
        tag: str | None = None
        while True:
            await self.active.wait()
            due = time.monotonic() // PERIOD_S * PERIOD_S + PERIOD_S + phase_s
            await asyncio.sleep(due - time.monotonic())
            reply = await self._connections.send(request("GET", self._path, if_none_match=tag or '""'), due)
            tag = reply.etag
            self.statuses[reply.status] += 1
            self.took_s.append(reply.took_s)


def is_polled(number: int) -> bool:
    """A B B A: the trials without pollers are A."""
    return number % 4 in {1, 2}


async def watch(url: str, db: Database, experiment_id: ExperimentId, warmups: int) -> Pollers:
    """Poll during every second measured trial of the experiment, to its end."""
    async with Connections(url, POLLERS) as connections:
        pollers = Pollers(connections, f"/v1/experiments/{experiment_id}/results")
        running = asyncio.create_task(pollers.run())
        while not (extent := trials.read_extent(db, experiment_id)).status.terminal:
            if running.done():
                await running
            if is_polled(extent.trials - warmups):
                pollers.active.set()
            else:
                pollers.active.clear()
            await asyncio.sleep(_LOOK_S)
        running.cancel()
        return pollers


def measured(db: Database, experiment_id: ExperimentId) -> list[TrialSummary]:
    """Its trials that count, in the order they ran."""
    return [trial for trial in trials.read_trials(db, experiment_id) if trial.planned.phase is Phase.MEASURED]


def tokens_per_s(trial: TrialSummary) -> float:
    """By the worker's clock, not by that of a simulated engine."""
    return (trial.work.output_tokens if trial.work else 0) / trial.wall_s


def main() -> None:
    """Print the ratio and what the pollers met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pollers", description=__doc__)
    parser.add_argument("spec", nargs="?", type=Path, help="a spec with one arm")
    asked: Path | None = parser.parse_args().spec
    spec = SIMULATED if asked is None else cast("dict[str, Any]", load(asked.read_bytes()).value)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        db = Database(Settings(data_dir=Path(directory)).url)
        with running_lab(Path(directory), lease_s=30.0) as lab:
            experiment_id = ExperimentId(lab.submit(**spec))
            warmups = Experiment.model_validate(spec).plan.warmup_trials
            pollers = asyncio.run(watch(lab.url, db, experiment_id, warmups))
            found = measured(db, experiment_id)
        db.dispose()
    pairs = range(0, len(found) - 1, 2)
    sides = [(found[n], found[n + 1]) if not is_polled(n) else (found[n + 1], found[n]) for n in pairs]
    result = compare_paired(
        [tokens_per_s(idle) for idle, _ in sides],
        [tokens_per_s(polled) for _, polled in sides],
        [-1 if is_polled(n) else 1 for n in pairs],
        confidence=CONFIDENCE,
    )
    if isinstance(result, NoEstimate):
        raise SystemExit(result.reason)
    ratio = result.log_ratio.transform(to_ratio)
    took = sorted(1e3 * seconds for seconds in pollers.took_s)
    print(
        f"throughput with pollers / without: {ratio.value:.4f} ({CONFIDENCE:.0%} interval {ratio.low:.4f} to "
        f"{ratio.high:.4f})\n"
        f"{len(sides)} pairs of trials; answers {dict(pollers.statuses)}, p50 {took[len(took) // 2]:.1f} ms, p99 "
        f"{took[int(0.99 * len(took))]:.1f} ms; load before {load_before:.1f}"
    )


if __name__ == "__main__":
    main()
