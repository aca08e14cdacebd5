"""What comparing an arm with itself says of every later comparison with that arm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.judge.fingerprint import compute_fingerprint
from app.judge.luck import NoiseFloor, describe_spread
from app.judge.results import Results
from app.judge.verdict import Verdict
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.resolution import ResolvedArm, ResolvedExperiment
from app.stats.estimate import drop_infinite, to_percent
from app.stats.starts import StartValue, combine_starts, list_start_values


@dataclass(frozen=True, slots=True)
class Noise:
    """What one A/A experiment found."""

    sd_pct: float  # of one block's log ratio of output throughput, in hundredths
    change_pct: float  # of output throughput, between equal arms
    blocks: int
    starts: Mapping[str, tuple[StartValue, ...]] | None = None  # by metric; None where an earlier version kept it

    def list_values(self, key: str) -> tuple[StartValue, ...]:
        """What each of its starts gave in one metric; it had one, as long as nothing was known of starts."""
        if self.starts is not None:
            return self.starts.get(key, ())
        only = StartValue(math.log1p(self.change_pct / 100), self.blocks, self.sd_pct / 100)
        return (only,) if key == "output_throughput" else ()


@dataclass(frozen=True, slots=True)
class NoiseKeys:
    """Under what the noise of an arm is kept."""

    fingerprint: str  # arm, workload, host and software: noise of exactly this
    settings: str  # arm and workload alone: known before an engine has started, on whatever host


def build_noise_keys(spec: Experiment, arm: ResolvedArm, started: StartedArm | None) -> NoiseKeys:
    """The keys of one arm; the seed is no part of them, nor is whether this is an A/A experiment."""
    alone = ResolvedExperiment(arms=(arm,), baseline=arm.name)
    plan = spec.plan.model_copy(update={"seed": 0})
    same = spec.model_copy(update={"plan": plan})
    settings = compute_fingerprint(same, alone, ())
    return NoiseKeys(settings if started is None else compute_fingerprint(same, alone, (started,)), settings)


def measure_noise(results: Results) -> Noise | None:
    """The noise an A/A experiment found; None if it has too few blocks to say, or if its arms were not equal."""
    main = next((one for one in results.comparisons if one.metric == "output_throughput"), None)
    if main is None or main.verdict is Verdict.CONFOUNDED or main.sd_pct is None or main.change_pct is None:
        return None
    starts = {}
    for one in results.comparisons:
        if one.sd_pct is not None:
            orders, of = [block.order for block in one.blocks], [block.start for block in one.blocks]
            starts[one.metric] = list_start_values([block.log_ratio for block in one.blocks], orders, of)
    return Noise(main.sd_pct, main.change_pct, main.pairs, starts)


def combine_noise(found: Sequence[Noise]) -> NoiseFloor | None:
    """Several A/A experiments in one: their blocks' noise averaged by their number, and every start a value."""
    if not found:
        return None
    weights = [max(noise.blocks - 1, 1) for noise in found]
    variance = sum(weight * noise.sd_pct**2 for weight, noise in zip(weights, found, strict=True)) / sum(weights)
    keys = dict.fromkeys(key for noise in found for key in ("output_throughput", *(noise.starts or ())))
    values = {key: [value for noise in found for value in noise.list_values(key)] for key in keys}
    spreads = {key: spread for key, of in values.items() if (spread := combine_starts(of)) is not None}
    main = spreads.get("output_throughput")
    return NoiseFloor(
        floor_pct=None if main is None else drop_infinite(to_percent(main.largest_by_chance())),
        noise_pct=math.sqrt(variance),
        experiments=len(found),
        starts=len(values["output_throughput"]),
        spreads={key: describe_spread(spread) for key, spread in spreads.items()},
    )
