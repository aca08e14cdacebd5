"""The luck of a start: which comparisons it can have touched, and what A/A experiments know of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from app.judge.verdict import PER_GPU, KnownSpread, StartLuck
from app.spec.experiment import Experiment, Residency
from app.spec.frozen import SpecModel
from app.spec.plan import group_engines
from app.spec.resolution import ResolvedArm, ResolvedExperiment
from app.stats.estimate import Estimate, NoEstimate
from app.stats.paired import PairedResult
from app.stats.starts import StartSpread


class NoiseFloor(SpecModel):
    """What comparing an arm with itself gave under the same fingerprint."""

    floor_pct: float | None = Field(
        ge=0,
        description="Change of output throughput that two engines with equal settings stay below with 95 % of their "
        "starts, percent; null below two starts. Where `starts` is null an earlier version wrote it, and it is the "
        "largest change seen.",
        examples=[0.4],
    )
    noise_pct: float = Field(
        ge=0, description="Standard deviation of one block's ratio between equal arms, percent.", examples=[0.3]
    )
    experiments: int = Field(ge=1, description="Experiments it rests on.", examples=[3])
    starts: int | None = Field(
        None,
        description="Starts of the engines that they had together; null in results of an earlier version.",
        examples=[8],
    )
    spreads: dict[str, KnownSpread] = Field(
        {},
        description="How far a start takes equal engines apart, by metric: it widens verdicts that rest on one start.",
        examples=[{}],
    )


@dataclass(frozen=True, slots=True)
class Luck:
    """What the start of their engines can have to do with the difference of two arms."""

    made_up: bool  # no engine ran for one of them
    shared: bool  # one engine serves both, so that its start is no difference between them
    known: Mapping[str, KnownSpread]

    def describe(self, key: str, starts: int) -> StartLuck | None:
        """What the comparison in one metric, on so many starts, can say of it."""
        if self.made_up:
            return None
        if self.shared:
            return StartLuck.SHARED_ENGINE
        if starts > 1:
            return StartLuck.SEVERAL_STARTS
        return StartLuck.KNOWN_SPREAD if key in self.known else StartLuck.UNKNOWN

    def list_provisos(self, key: str, result: PairedResult | NoEstimate) -> tuple[str, ...]:
        """Blocks on one start of two engines cannot tell their settings from the luck of that start."""
        if isinstance(result, NoEstimate) or self.describe(key, result.starts) is not StartLuck.UNKNOWN:
            return ()
        return ("this holds for these engine processes; another start may differ",)

    def find_spread(self, key: str) -> StartSpread | None:
        """What is known of one metric, as the statistics take it."""
        return None if self.shared or key not in self.known else read_spread(self.known[key])


def find_luck(
    spec: Experiment, resolved: ResolvedExperiment, pair: tuple[ResolvedArm, ResolvedArm], noise: NoiseFloor | None
) -> Luck:
    """What there is to say of the luck of two arms' engines."""
    group = next(group for group in group_engines(resolved) if pair[0].name in group)
    known = {} if noise is None else dict(noise.spreads)
    if "output_throughput" in known:
        known.setdefault(PER_GPU, known["output_throughput"])  # equal arms have as many GPUs: the same ratio
    return Luck(
        made_up=any(arm.simulated for arm in pair),
        shared=pair[1].name in group and spec.plan.residency is not Residency.RESTART,
        known=known,
    )


def describe_spread(spread: StartSpread) -> KnownSpread:
    """The form that travels."""
    return KnownSpread(
        sd_pct=100 * spread.sd,
        blocks=spread.blocks,
        starts=spread.starts,
        between_pct=100 * spread.between.value,
        between_interval_pct=(100 * spread.between.low, 100 * spread.between.high),
    )


def read_spread(known: KnownSpread) -> StartSpread:
    """The form the statistics take; the inverse of `known_spread`."""
    low, high = (end / 100 for end in known.between_interval_pct)
    between = Estimate(known.between_pct / 100, low, high, 0.95)
    return StartSpread(known.sd_pct / 100, known.blocks, known.starts, between)
