"""Results documents to write in other formats."""

from typing import Any

from app.judge.results import build_results
from app.spec.lifecycle import Status
from app.spec.plan import Phase, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from tests.support.builders import a_resolved_arm, a_simulated_spec, a_trial

SPEC = a_simulated_spec(name="sync | async")
RESOLVED: ResolvedExperiment = resolve(SPEC)


def a_document(sync: float = 100.0, candidate: float = 80.0, blocks: int = 6, **changes: Any) -> dict[str, Any]:
    """Results of an experiment whose candidate has another throughput; ABBA."""
    trials = [a_trial("sync", 0, 0, sync, phase=Phase.WARMUP, slot=0)]
    for block in range(blocks):
        first = block % 2
        noise = 1.0 + 0.002 * (block % 3)
        trials.append(a_trial("sync", block, first, sync * noise, metrics={"e2el_ms.p50": 12.0}))
        trials.append(a_trial("async", block, 1 - first, candidate, metrics={"e2el_ms.p50": 15.0}))
    found = build_results(
        "0f8e",
        spec=SPEC,
        resolved=RESOLVED,
        plan=plan_trials(SPEC, RESOLVED),
        status=Status.SUCCEEDED,
        arms=[a_resolved_arm(arm.name, {}, simulated=True) for arm in RESOLVED.arms],
        trials=trials,
        **changes,
    )
    return found.model_dump(mode="json")
