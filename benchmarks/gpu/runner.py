"""One call: parts in order against one service, everything written as soon as it is found."""

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self

import httpx

from app.errors import RolloutLabError
from benchmarks.gpu import fresh, harness
from benchmarks.gpu.budget import Deadline, estimate_s, fit
from benchmarks.gpu.digest import digest
from benchmarks.gpu.ledger import Ledger
from benchmarks.gpu.neighbour import beside
from benchmarks.gpu.parts import PARTS, Part, changed, plan_of
from benchmarks.gpu.service import CLOSING_S, Lab, serving
from benchmarks.gpu.telemetry import sampling

Object = dict[str, Any]

_TROUBLE = (RolloutLabError, OSError, httpx.HTTPError, subprocess.SubprocessError)
_SERVICE_S = 15.0  # its start, with Ray's


class Runner(AbstractContextManager["Runner"]):
    """Runs parts; the service starts with the first that needs it."""

    def __init__(self, options: argparse.Namespace, deadline: Deadline) -> None:
        self._options = options
        self._deadline = deadline
        self._out: Path = options.out
        self._out.mkdir(parents=True, exist_ok=True)
        self._ledger = Ledger(self._out)
        self._stack = ExitStack()
        self._lab: Lab | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def estimate(self, names: Sequence[str]) -> None:
        """Say what the parts would take, one after the other."""
        known, total = set(self._ledger.graphs), 0.0
        for name in names:
            seconds = self._estimate_s(name, known)
            known.update(_graphs(name))
            total += seconds
            print(f"{name:10}{seconds:6.0f} s {total:7.0f} s in all", flush=True)

    def run(self, names: Sequence[str]) -> None:
        """Run the parts; one that fails is written down, and the next begins."""
        for name in names:
            began = time.monotonic()
            try:
                found = self._run(name)
            except _TROUBLE as error:
                found = {"error": {"detail": f"{type(error).__name__}: {error}"}}
            took_s = time.monotonic() - began
            if found is None:
                print(f"{name}: left out, {self._ledger.not_run[name]}", flush=True)
                continue
            graphs = [] if found.get("error") or found.get("failure") else list(_graphs(name))
            self._ledger.keep(name, found | {"took_s": took_s, "graphs": graphs})
            print(f"{name}: {took_s:.0f} s. {found.get('summary', '')}", flush=True)

    def _run(self, name: str) -> Object | None:
        """A part's digest; None if it does not fit."""
        if name in PARTS:
            return self._experiment(PARTS[name])
        return self._fresh() if name == fresh.PART else self._harness(name)

    def _experiment(self, part: Part) -> Object | None:
        lasting_s = CLOSING_S + (0.0 if self._lab else _SERVICE_S)
        found = fit(part, self._spec(part), self._ledger.graphs, self._deadline.left_s - lasting_s)
        if not self._fits(part.name, found.estimate_s + lasting_s):
            return None
        folder = self._emptied(part.name)
        (folder / "engines").mkdir()
        lab, smi = self._service(), folder / "nvidia-smi.csv"
        (folder / "spec.json").write_text(json.dumps(found.spec, indent=1))
        rehearsal = lab.client.rehearse(found.spec)["cost"]
        print(
            f"{part.name}: {part.about}; {rehearsal['order']}, {rehearsal['engine_starts']} engine starts, "
            f"about {found.estimate_s:.0f} s (by an earlier experiment: {rehearsal['estimated_s']})",
            flush=True,
        )
        with sampling(smi), beside(part.neighbour, lab.client.url, folder / "neighbour.log"):
            experiment = lab.run(found.spec, self._deadline, folder / "engines")
        evidence = lab.evidence(experiment, folder / "engines", smi)
        for name, document in (("experiment", experiment), ("results", evidence.results)):
            (folder / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False))
        lab.save(experiment, folder)
        return digest(part, evidence) | {"blocks_asked": part.spec["plan"]["blocks"], "estimate_s": found.estimate_s}

    def _harness(self, name: str) -> Object | None:
        """Sizes come one after the other: those that are done by the deadline count."""
        if not self._fits(name, harness.estimate_s(self._ledger.graphs, sizes=1)):
            return None
        return harness.measure(name, self._emptied(name), self._options, self._deadline)

    def _fresh(self) -> Object | None:
        if not self._fits(fresh.PART, fresh.PROCESS_S):
            return None
        folder = self._out / fresh.PART
        folder.mkdir(exist_ok=True)
        spec = fresh.spec_of(self._spec(PARTS["b32"]))
        found = fresh.measure(spec, folder, self._deadline)
        trials = len(plan_of(spec).measured)
        return found | fresh.cost(found["processes"], trials, self._ledger.parts.get("a"))

    def _spec(self, part: Part) -> Object:
        options = self._options
        return changed(part.spec, model=options.model, tokens=options.tokens, blocks=options.blocks)

    def _estimate_s(self, name: str, known: set[str]) -> float:
        if name in PARTS:
            part = PARTS[name]
            return estimate_s(part, plan_of(self._spec(part)), known)
        if name == fresh.PART:
            return fresh.PROCESS_S * len(plan_of(fresh.spec_of(self._spec(PARTS["b32"]))).measured)
        return harness.estimate_s(known)

    def _emptied(self, name: str) -> Path:
        folder = self._out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _fits(self, name: str, seconds: float) -> bool:
        if seconds <= self._deadline.left_s:
            return True
        self._ledger.leave_out(name, f"it takes about {seconds:.0f} s, and {self._deadline.left_s:.0f} s were left")
        return False

    def _service(self) -> Lab:
        if self._lab is None:
            self._lab = self._stack.enter_context(serving(self._out / "service"))
        return self._lab


def _graphs(name: str) -> tuple[str, ...]:
    if name in PARTS:
        return PARTS[name].graphs
    return (harness.GRAPH,) if name in harness.DRIVERS else ()
