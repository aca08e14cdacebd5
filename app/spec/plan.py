"""The schedule as data, decided before anything runs."""

import random
from collections import Counter
from collections.abc import Collection
from enum import StrEnum
from itertools import groupby

from pydantic import Field

from app.spec.experiment import Experiment, PlanSettings, Residency
from app.spec.frozen import SpecModel
from app.spec.resolution import ResolvedExperiment, longest_output, longest_prompt
from app.spec.size import count_samples


class Phase(StrEnum):
    """Whether a trial counts."""

    WARMUP = "warmup"
    MEASURED = "measured"


class PlannedTrial(SpecModel):
    """One trial that will run."""

    slot: int = Field(description="Place in the order of measured trials, from 0; warm-ups have their own count.")
    phase: Phase = Field(description="Whether the trial counts.")
    block: int = Field(description="Block, from 0; for warm-ups the round.")
    arm: str = Field(description="Arm that runs.")
    position: int = Field(description="Place within the block, from 0.")
    fresh_engine: bool = Field(False, description="Whether the arm's engine is started anew for it.")
    start: int = Field(0, description="Which start of the engines it runs on, from 0; all arms of a block share it.")


class TrialPlan(SpecModel):
    """Everything that will run, in order."""

    arms: tuple[str, ...] = Field(description="Names of the arms, in the spec's order.")
    trials: tuple[PlannedTrial, ...] = Field(
        description="Resident engines: warm-ups first, then the blocks, start by start; engines that restart for every "
        "trial warm up before each."
    )
    engines: tuple[tuple[str, ...], ...] = Field(
        description="Arms by engine: arms in one group differ in driver settings only and share one engine."
    )
    residency: Residency = Field(
        description="`resident`: engines stay up between trials; `restart`: started anew for every trial."
    )
    starts: int = Field(description="Groups of blocks that begin with a start of every engine.")
    engine_starts: int = Field(description="How many times an engine is started.")
    most_repeats: int = Field(
        description="Most blocks that are run again, because another process disturbed the host during one of them."
    )
    samples_per_trial: int | None = Field(description="Samples one trial generates, where known before it runs.")
    longest_sample_tokens: int = Field(description="Most tokens of prompt and output together.")

    @property
    def measured(self) -> tuple[PlannedTrial, ...]:
        """The trials that count."""
        return tuple(trial for trial in self.trials if trial.phase is Phase.MEASURED)

    def orders(self, baseline: str, candidate: str) -> tuple[int, ...]:
        """Block by block: +1 where the baseline runs before the candidate, -1 where it runs after it."""
        places = {(trial.block, trial.arm): trial.position for trial in self.measured}
        blocks = dict.fromkeys(trial.block for trial in self.measured)
        return tuple(1 if places[block, baseline] < places[block, candidate] else -1 for block in blocks)

    @property
    def block_starts(self) -> tuple[int, ...]:
        """Which start every block runs on, in the order of the blocks."""
        return tuple(start for _, start in sorted({(trial.block, trial.start) for trial in self.measured}))

    @property
    def order(self) -> str:
        """The measured trials as letters, one per arm, with a `|` where all engines start anew: `ABBA|ABBA`."""
        letters = {name: _find_letter(index) for index, name in enumerate(self.arms)}
        by_start = groupby(self.measured, key=lambda trial: trial.start if self.starts > 1 else 0)
        return "|".join("".join(letters[trial.arm] for trial in group) for _, group in by_start)


def plan_trials(spec: Experiment, resolved: ResolvedExperiment) -> TrialPlan:
    """Warm-ups, then blocks of one trial per arm: ABBA for two arms, seeded random order for more.

    ABBA lets the comparison remove what every second trial has in common and a steady drift
    (docs/method.md); with more arms a random order does it on average.
    """
    names = [arm.name for arm in resolved.arms]
    restart = spec.plan.residency is Residency.RESTART
    measured = _plan_measured(names, spec.plan)
    engines = group_engines(resolved)
    trials = (
        [trial for one in measured for trial in _plan_restarted(one, spec.plan.warmup_trials)]
        if restart
        else _split_by_start(_plan_warmups(names, spec.plan) + measured, engines)
    )
    return TrialPlan(
        arms=tuple(names),
        trials=tuple(trials),
        engines=engines,
        residency=Residency.RESTART if restart else Residency.RESIDENT,
        starts=spec.plan.starts,
        engine_starts=len(measured) if restart else spec.plan.starts * len(engines),
        most_repeats=max(1, spec.plan.blocks // 3),
        samples_per_trial=count_samples(spec),
        longest_sample_tokens=(longest_prompt(spec) or 0) + longest_output(spec),
    )


def repeat_block(plan: TrialPlan, block: int, number: int) -> tuple[PlannedTrial, ...]:
    """The ``number``-th repeat (from 0): the trials of a block once more, in the same order, as a block of its own.

    It keeps the index of the block's start, and so has to run before the engines start anew.
    """
    measured = plan.measured
    again = [trial for trial in plan.trials if trial.block == block and trial.phase is Phase.MEASURED]
    return tuple(
        trial.model_copy(
            update={
                "block": measured[-1].block + 1 + number,
                "slot": len(measured) + number * len(again) + offset,
                "fresh_engine": plan.residency is Residency.RESTART,
            }
        )
        for offset, trial in enumerate(again)
    )


def remaining(plan: TrialPlan, done: Collection[int]) -> tuple[PlannedTrial, ...]:
    """What is left to run once these blocks are done; engines that are needed no more are not warmed up either."""
    left = [trial for trial in plan.measured if trial.block not in done]
    if plan.residency is Residency.RESIDENT:
        starts = {trial.start for trial in left}
        warmups = [trial for trial in plan.trials if trial.phase is Phase.WARMUP and trial.start in starts]
        return tuple(_split_by_start(warmups + left, plan.engines))
    kept: list[PlannedTrial] = []
    before: list[PlannedTrial] = []  # the warm-ups of the measured trial that follows
    for trial in plan.trials:
        before.append(trial)
        if trial.phase is Phase.MEASURED:
            kept += before if trial.block not in done else []
            before = []
    return tuple(kept)


def _plan_measured(names: list[str], plan: PlanSettings) -> list[PlannedTrial]:
    rng = random.Random(plan.seed)  # noqa: S311 - an order, not a secret
    return [
        PlannedTrial(
            slot=block * len(names) + position,
            phase=Phase.MEASURED,
            block=block,
            arm=name,
            position=position,
            start=block if plan.residency is Residency.RESTART else block * plan.starts // plan.blocks,
        )
        for block in range(plan.blocks)
        for position, name in enumerate(_draw_order(names, block, rng))
    ]


def _plan_warmups(names: list[str], plan: PlanSettings) -> list[PlannedTrial]:
    return [
        PlannedTrial(
            slot=round_ * len(names) + position,
            phase=Phase.WARMUP,
            block=round_,
            arm=name,
            position=position,
            start=round_ // plan.warmup_trials,
        )
        for round_ in range(plan.starts * plan.warmup_trials)
        for position, name in enumerate(names)
    ]


def _split_by_start(trials: list[PlannedTrial], engines: tuple[tuple[str, ...], ...]) -> list[PlannedTrial]:
    """Start by start, warm-ups first; from the second on, the first trial of every engine has it started anew."""
    engine_of = {name: group[0] for group in engines for name in group}
    seen: set[tuple[int, str]] = set()
    ordered: list[PlannedTrial] = []
    for trial in sorted(trials, key=lambda trial: (trial.start, trial.phase is Phase.MEASURED)):
        first = (trial.start, engine_of[trial.arm]) not in seen
        seen.add((trial.start, engine_of[trial.arm]))
        ordered.append(trial.model_copy(update={"fresh_engine": first and trial.start > 0}))
    return ordered


def _plan_restarted(trial: PlannedTrial, warmups: int) -> list[PlannedTrial]:
    """A measured trial with the warm-ups of its fresh engine before it."""
    before = [
        PlannedTrial(
            slot=trial.slot * warmups + number,
            phase=Phase.WARMUP,
            block=trial.block * warmups + number,
            arm=trial.arm,
            position=trial.position,
            fresh_engine=number == 0,
            start=trial.start,
        )
        for number in range(warmups)
    ]
    return [*before, trial.model_copy(update={"fresh_engine": not before})]


def _draw_order(names: list[str], block: int, rng: random.Random) -> list[str]:
    if len(names) <= 2:
        return names if block % 2 == 0 else names[::-1]
    return rng.sample(names, len(names))


def group_engines(resolved: ResolvedExperiment) -> tuple[tuple[str, ...], ...]:
    """Arms by engine: those of one group differ in driver settings only and share it."""
    groups: dict[tuple[str, int], list[str]] = {}
    twins: Counter[str] = Counter()
    for arm in resolved.arms:
        settings = arm.model_copy(update={"name": ""}).model_dump_json()
        # An arm that repeats another to the letter is there to measure noise: it gets an engine of its own, as the
        # arms of a real comparison have.
        groups.setdefault((arm.engine_key, twins[settings]), []).append(arm.name)
        twins[settings] += 1
    return tuple(tuple(group) for group in groups.values())


def _find_letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"[{index}]"
