"""What an attempt need not measure, because one before it has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, JsonValue

from app.judge.blocks import group_blocks, is_counted, list_finished
from app.judge.fingerprint import Identity, build_identity
from app.measure.metrics import TrialSummary
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedExperiment


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an attempt before this one left: of the same experiment, or of one that it retries."""

    experiment_id: str
    attempt: int
    workload_sha256: str | None
    arms: tuple[StartedArm, ...]
    trials: tuple[TrialSummary, ...]


class EarlierBlocks(SpecModel):
    """Finished blocks of an earlier attempt."""

    experiment_id: str = Field(description="The experiment it was an attempt at.", examples=["0f8e5c1d2b3a4956"])
    attempt: int = Field(description="Which attempt, from 1.", examples=[1])
    blocks: tuple[int, ...] = Field(description="The blocks, from 0.", examples=[[0, 1, 2]])
    differences: tuple[str, ...] = Field(
        (), description="Why they do not count here.", examples=[["versions.vllm was 0.31.0, is 0.32.0"]]
    )


class Continuation(SpecModel):
    """What became of the finished blocks of earlier attempts."""

    taken_over: tuple[EarlierBlocks, ...] = Field(
        (), description="Measured by an earlier attempt under the same fingerprint; they are part of these results."
    )
    run_again: tuple[EarlierBlocks, ...] = Field(
        (), description="Measured under another fingerprint, and so measured again."
    )
    looks_read: tuple[int, ...] = Field(
        (),
        description="Looks of the plan that an earlier attempt has got to: each is read once, and not here again.",
        examples=[[4]],
    )

    @property
    def blocks(self) -> frozenset[int]:
        """The blocks that need not run."""
        return frozenset(block for earlier in self.taken_over for block in earlier.blocks)


def find_continuation(
    spec: Experiment,
    resolved: ResolvedExperiment,
    plan: TrialPlan,
    arms: Sequence[StartedArm],
    earlier: Sequence[Earlier],
    *,
    workload_sha256: str | None = None,
) -> Continuation | None:
    """What to take over from earlier attempts, newest first; None if none of them finished a block or got to a look.

    A block counts if it is of the plan and every arm ran in it undisturbed; its trials never come from two attempts.
    """
    now = _identify(spec, resolved, arms, workload_sha256)
    taken_over: list[EarlierBlocks] = []
    run_again: list[EarlierBlocks] = []
    seen: set[int] = set()
    for one in earlier:
        blocks = find_finished_blocks(one.trials, plan) - seen
        if not blocks:
            continue
        then = _identify(spec, resolved, one.arms, one.workload_sha256)
        found = EarlierBlocks(
            experiment_id=one.experiment_id,
            attempt=one.attempt,
            blocks=tuple(sorted(blocks)),
            differences=tuple(list_differences(now, then)),
        )
        if found.differences:
            run_again.append(found)
        else:
            taken_over.append(found)
            seen |= blocks
    farthest = max((len(list_finished(group_blocks(one.trials), plan)) for one in earlier), default=0)
    looks_read = tuple(look for look in spec.plan.looks if look <= farthest)
    if not taken_over and not run_again and not looks_read:
        return None
    return Continuation(taken_over=tuple(taken_over), run_again=tuple(run_again), looks_read=looks_read)


def find_finished_blocks(trials: Sequence[TrialSummary], plan: TrialPlan) -> set[int]:
    """Blocks of the plan that one attempt has finished, undisturbed and with every arm."""
    planned = {trial.block for trial in plan.measured}
    return {
        block
        for block, by_arm in group_blocks(trials).items()
        if block in planned and all(is_counted(by_arm.get(arm)) for arm in plan.arms)
    }


def _identify(
    spec: Experiment, resolved: ResolvedExperiment, arms: Sequence[StartedArm], workload_sha256: str | None
) -> dict[str, Identity]:
    """One per arm, so that a difference can be named wherever it is; all are equal if and only if fingerprints are."""
    started = {arm.arm: arm for arm in arms}
    return {
        arm.name: build_identity(
            spec,
            ResolvedExperiment(arms=(arm,), baseline=arm.name),
            [started[arm.name]] if arm.name in started else [],
            workload_sha256=workload_sha256,
        )
        for arm in resolved.arms
    }


def list_differences(now: Mapping[str, Identity], then: Mapping[str, Identity]) -> Iterator[str]:
    """In what the arms' identities then were not what they are now, each once."""
    told: set[str] = set()
    for arm, identity in now.items():
        ours, theirs = _flatten_identity(identity), _flatten_identity(then[arm])
        for key in sorted(ours.keys() | theirs.keys()):
            was, is_ = theirs.get(key, "unknown"), ours.get(key, "unknown")
            text = f"{key} was {was}, is {is_}"
            if was != is_ and text not in told:
                told.add(text)
                yield text


def _flatten_identity(identity: Identity) -> dict[str, JsonValue]:
    """Dotted keys to values; those of the identity's only arm begin without a prefix."""
    (arm,) = identity.arms
    flat: dict[str, JsonValue] = {}
    _flatten(identity.workload, "workload", flat)
    _flatten(arm, "", flat)
    return flat


def _flatten(value: JsonValue, key: str, flat: dict[str, JsonValue]) -> None:
    if isinstance(value, dict):
        for name, child in value.items():
            _flatten(child, f"{key}.{name}" if key else name, flat)
    else:
        flat[key] = value
