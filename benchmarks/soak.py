"""Whether anything is lost or stuck when parts keep dying: `python -m benchmarks.soak`, half an hour on two cores.

500 small simulated experiments run on a real service with its worker and its Ray. Every few seconds a random part of it
is killed with SIGKILL: the API, the worker, an engine's actor, the raylet, Ray's head. Every experiment asks to be
retried if its worker is lost. Goal: all come to exactly one end, and no trial is lost or stored twice.
"""

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from app.settings import Settings
from app.store import catalogue, experiments
from app.store.ids import ExperimentId
from benchmarks.support.crashes import Scene, Victim, simulated
from benchmarks.support.databases import opened
from benchmarks.support.lab import running_lab
from benchmarks.support.service import eventually

LEASE_S = 5.0
PATIENCE_S = 300.0  # without any experiment's end, at which the service is stuck


def soak(scene: Scene, count: int, kill_every_s: float, rng: random.Random) -> Counter[str]:
    """Run so many experiments while parts are killed at random; what was killed, how often."""
    ids = [submit(scene) for _ in range(count)]
    killed: Counter[str] = Counter()
    ended, since, next_kill = 0, time.monotonic(), time.monotonic() + kill_every_s
    while ended < len(ids):
        time.sleep(0.1)
        done = sum(number for status, number in experiments.counts(scene.db).items() if status.terminal)
        if done > ended:
            ended, since = done, time.monotonic()
        if time.monotonic() - since > PATIENCE_S:
            raise SystemExit(f"stuck: {ended} of {len(ids)} have ended, none for {PATIENCE_S:.0f} s")
        if time.monotonic() >= next_kill:
            next_kill = time.monotonic() + rng.expovariate(1.0 / kill_every_s)
            killed.update(kill_one(scene, rng))
    for experiment_id in ids:
        scene.assert_sound(experiment_id)
    return killed


def submit(scene: Scene) -> str:
    """Two arms, two blocks, a tenth of a second each."""
    return scene.lab.submit(**simulated("a", "b", blocks=2, trial_s=0.1, limits={"retry_on_loss": True}))


def kill_one(scene: Scene, rng: random.Random) -> list[str]:
    """Kill a random part, if it is there now."""
    victim = rng.choice(list(Victim))
    found = scene.processes(victim)
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            return []
    return [victim.value] if found else []


def main() -> None:
    """Print what was killed and how the experiments ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--experiments", type=int, default=500, help="how many")
    parser.add_argument("--kill-every", type=float, default=20.0, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=0, help="of what is killed and when")
    asked = parser.parse_args()
    load_before, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        url = Settings(data_dir=Path(directory)).url
        with running_lab(Path(directory), LEASE_S) as lab, opened(url) as db:
            scene = Scene(lab, db)
            killed = soak(scene, asked.experiments, asked.kill_every, random.Random(asked.seed))  # noqa: S311
            report(scene, killed, time.monotonic() - began, load_before)
            eventually(lambda: lab.http.get("/readyz").json()["status"] == "ready", 120.0, 0.5)


def report(scene: Scene, killed: Counter[str], took_s: float, load_before: float) -> None:
    """How they ended, after how many attempts, and why those that failed did."""
    rows = [experiments.get(scene.db, ExperimentId(item.id)) for item in every_item(scene)]
    ends = Counter(row.item.status.value for row in rows)
    attempts = Counter(row.item.attempt for row in rows)
    reasons = Counter(row.item.failure.code.value for row in rows if row.item.failure is not None)
    continued = sum(attempt.continuation is not None for row in rows for attempt in row.attempts)
    print(f"{len(rows)} experiments in {took_s:.0f} s, load before {load_before:.1f}; killed {dict(killed)}")
    print(f"ended {dict(ends)}, attempts {dict(sorted(attempts.items()))}, failures {dict(reasons)}")
    print(f"{continued} attempts went on from finished blocks; nothing lost, twice, or stuck")


def every_item(scene: Scene) -> list[experiments.ExperimentItem]:
    """All of them, a page at a time."""
    items: list[experiments.ExperimentItem] = []
    cursor: str | None = None
    while True:
        page = catalogue.page(scene.db, cursor=cursor, limit=200)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


if __name__ == "__main__":
    main()
