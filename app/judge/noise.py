"""What comparing an arm with itself says of every later comparison with that arm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.judge.fingerprint import fingerprint
from app.judge.results import NoiseFloor, Results
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.resolution import ResolvedArm, ResolvedExperiment


@dataclass(frozen=True, slots=True)
class Noise:
    """What one A/A experiment found for output throughput."""

    sd_pct: float  # standard deviation of one block's log ratio, in hundredths
    change_pct: float  # between equal arms
    blocks: int


@dataclass(frozen=True, slots=True)
class NoiseKeys:
    """Under what the noise of an arm is kept."""

    fingerprint: str  # arm, workload, host and software: noise of exactly this
    settings: str  # arm and workload alone: known before an engine has started, on whatever host


def noise_keys(spec: Experiment, arm: ResolvedArm, started: StartedArm | None) -> NoiseKeys:
    """The keys of one arm; the seed is no part of them, nor is whether this is an A/A experiment."""
    alone = ResolvedExperiment(arms=(arm,), baseline=arm.name)
    plan = spec.plan.model_copy(update={"seed": 0})
    same = spec.model_copy(update={"plan": plan})
    settings = fingerprint(same, alone, ())
    return NoiseKeys(settings if started is None else fingerprint(same, alone, (started,)), settings)


def noise_of(results: Results) -> Noise | None:
    """The noise an A/A experiment found; None if it has too few blocks to say."""
    for comparison in results.comparisons:
        if comparison.metric == "output_throughput":
            if comparison.sd_pct is None or comparison.change_pct is None:
                return None
            return Noise(comparison.sd_pct, comparison.change_pct, comparison.pairs)
    return None


def floor_of(found: Sequence[Noise]) -> NoiseFloor | None:
    """Several A/A experiments in one: variances averaged by their blocks, and the largest change."""
    if not found:
        return None
    weights = [max(noise.blocks - 1, 1) for noise in found]
    variance = sum(weight * noise.sd_pct**2 for weight, noise in zip(weights, found, strict=True)) / sum(weights)
    return NoiseFloor(
        floor_pct=max(abs(noise.change_pct) for noise in found),
        noise_pct=math.sqrt(variance),
        experiments=len(found),
    )
