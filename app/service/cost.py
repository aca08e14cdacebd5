"""What an experiment will cost, from what earlier ones did cost: never a guess."""

import math
from dataclasses import dataclass
from itertools import groupby

from pydantic import BaseModel, Field

from app.errors import InvalidInput, UnreadableSpec
from app.judge.comparison import find_decision_level
from app.judge.luck import read_spread
from app.judge.noise import build_noise_keys, combine_noise
from app.judge.verdict import KnownSpread
from app.spec.experiment import Experiment, Residency
from app.spec.lifecycle import Status
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedArm, ResolvedExperiment, resolve
from app.stats.estimate import drop_infinite, to_percent
from app.stats.paired import choose_analysis
from app.stats.power import detectable_by, detectable_effect
from app.stats.starts import describe_within, error_beside
from app.store import catalogue, experiments, trials
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId
from app.store.noise import read_noise_anywhere

EARLIER = 20  # experiments of the same model that are looked at, newest first


class Cost(BaseModel):
    """What an experiment takes."""

    trials: int = Field(description="Measured trials.", examples=[12])
    warmup_trials: int = Field(description="Trials that are run and thrown away.", examples=[2])
    engine_starts: int = Field(description="How many times an engine is started.", examples=[2])
    samples: int | None = Field(
        description="Samples generated in all, warm-ups included; null where only the worker can count the prompts.",
        examples=[448],
    )
    order: str = Field(
        description="The measured trials, one letter per arm; `|` where all engines start anew.",
        examples=["ABBAABBAABBA"],
    )
    estimated_s: float | None = Field(
        description="Seconds from start to end, from an earlier experiment with the same arms, model and workload.",
        examples=[74.0],
    )
    estimated_gpu_s: float | None = Field(
        description="GPU seconds: that times the GPUs; null without an estimate or a GPU.", examples=[None]
    )
    noise_pct: float | None = Field(
        description="Standard deviation of one block's ratio, from A/A experiments (`calibrate`) with an arm of these "
        "settings and this workload, on whatever host; null if there is none.",
        examples=[0.3],
    )
    detectable_effect_pct: float | None = Field(
        description="Smallest change the plan's blocks find with 80 % probability at that noise; null without it.",
        examples=[0.5],
    )
    based_on: str | None = Field(description="The earlier experiment.", examples=["0f8e5c1d2b3a4956"])
    reason: str | None = Field(
        description="Why there is no estimate.",
        examples=["no earlier experiment ran these arms with this model and workload"],
    )


@dataclass(frozen=True, slots=True)
class _Spent:
    """What one arm took in an earlier experiment."""

    start_s: float
    trial_s: float


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What an earlier experiment took: by arm, and beside its arms, per trial."""

    arms: dict[str, _Spent]
    beside_s: float
    gpus: int


def estimate_cost(db: Database, spec: Experiment, resolved: ResolvedExperiment, plan: TrialPlan) -> Cost:
    """Count what is known, estimate what has been seen before."""
    found = _find_like(db, spec, resolved)
    seconds = None if found is None else estimate_s(plan, found[1])
    gpus = 0 if found is None else found[1].gpus
    noise = combine_noise(
        read_noise_anywhere(db, [build_noise_keys(spec, arm, None).settings for arm in resolved.arms])
    )
    return Cost(
        trials=len(plan.measured),
        warmup_trials=len(plan.trials) - len(plan.measured),
        engine_starts=plan.engine_starts,
        samples=None if plan.samples_per_trial is None else plan.samples_per_trial * len(plan.trials),
        order=plan.order,
        estimated_s=None if seconds is None else round(seconds, 1),
        estimated_gpu_s=round(seconds * gpus, 1) if seconds is not None and gpus else None,
        noise_pct=None if noise is None else round(noise.noise_pct, 3),
        detectable_effect_pct=None
        if noise is None
        else promise_effect_pct(noise.noise_pct, spec, plan, noise.spreads.get("output_throughput")),
        based_on=None if found is None else found[0],
        reason=None if found else "no earlier experiment ran these arms with this model and workload",
    )


def promise_effect_pct(
    noise_pct: float, spec: Experiment, plan: TrialPlan, known: KnownSpread | None = None
) -> float | None:
    """The smallest change, percent, that the plan finds with 80 % probability; None for fewer than two blocks or arms.

    `noise_pct`: standard deviation of one block's log ratio, in hundredths. `known`: the spread of starts; without it
    they are counted as if they gave the same, and what they add shows only afterwards.
    """
    baseline, *candidates = plan.arms
    if not candidates or spec.plan.blocks < 2:
        return None
    analysis = choose_analysis(plan.orders(baseline, candidates[0]), len(plan.arms))
    blocks, alpha = spec.plan.blocks, find_decision_level(spec)
    restart, sd = plan.residency is Residency.RESTART, noise_pct / 100.0
    shared = not restart and any({baseline, candidates[0]} <= set(group) for group in plan.engines)
    between = 0.0 if known is None or shared else known.between_pct / 100.0
    own = restart or plan.starts == blocks  # every block has a start of its own, and that is part of its noise
    effect = detectable_effect(math.hypot(sd, between) if own else sd, blocks, analysis, alpha=alpha)
    if 1 < plan.starts < blocks and not shared:
        orders = plan.orders(baseline, candidates[0]) if len(plan.arms) == 2 else None
        within = describe_within(orders, plan.block_starts)
        error = math.hypot(between / math.sqrt(plan.starts), sd / math.sqrt(blocks))
        effect = max(
            detectable_by(sd * within.error, within.df, alpha=alpha),
            detectable_by(error, plan.starts - 1, alpha=alpha),
        )
    elif known is not None and not shared and not own:
        error, df = error_beside(read_spread(known), sd, blocks - (1 if analysis == "paired" else 2), blocks)
        effect = max(effect, detectable_by(error, df, alpha=alpha))
    found = drop_infinite(to_percent(effect))
    return None if found is None else round(found, 3)


def estimate_s(plan: TrialPlan, earlier: _Earlier) -> float:
    """Seconds for starts and trials, by what they took before."""
    spent = earlier.arms
    fresh = [trial.arm for trial in plan.trials if trial.fresh_engine]
    starts = (
        sum(spent[arm].start_s for arm in fresh)
        if plan.residency is Residency.RESTART
        else plan.starts * sum(max(spent[arm].start_s for arm in group) for group in plan.engines)
    )
    return starts + sum(spent[trial.arm].trial_s + earlier.beside_s for trial in plan.trials)


def _find_like(db: Database, spec: Experiment, resolved: ResolvedExperiment) -> tuple[ExperimentId, _Earlier] | None:
    """The newest experiment that did the same work with the same arms, in whatever order and number of blocks."""
    model = resolved.arms[0].model.id
    for item in catalogue.page(db, model=model, status=(Status.SUCCEEDED,), limit=EARLIER).items:
        try:
            row = experiments.get(db, item.id)
        except UnreadableSpec:
            continue
        if row.spec.workload != spec.workload:
            continue
        before = {_describe_work(arm): arm.name for arm in _resolve_arms(row.spec)}
        names = {arm.name: before.get(_describe_work(arm)) for arm in resolved.arms}
        earlier = _read_earlier(db, row, {new: old for new, old in names.items() if old is not None})
        if earlier is not None and len(earlier.arms) == len(names):
            return item.id, earlier
    return None


def _resolve_arms(spec: Experiment) -> tuple[ResolvedArm, ...]:
    try:
        return resolve(spec).arms
    except InvalidInput:  # a profile or preset of that time is gone
        return ()


def _describe_work(arm: ResolvedArm) -> str:
    return arm.model_copy(update={"name": "", "profile": ""}).model_dump_json()


def _read_earlier(db: Database, row: ExperimentRow, names: dict[str, str]) -> _Earlier | None:
    starts = {
        stored.resolved.arm: stored.resolved.start_s for stored in trials.read_arms(db, row.item.id, row.item.attempt)
    }
    ran = sorted(trials.read_trials(db, row.item.id, row.item.attempt), key=lambda trial: trial.planned.arm)
    walls = {arm: [trial.wall_s for trial in group] for arm, group in groupby(ran, key=lambda t: t.planned.arm)}
    if not ran or row.item.started_at is None or row.item.finished_at is None:
        return None
    whole_s = (row.item.finished_at - row.item.started_at).total_seconds()
    beside_s = whole_s - sum(starts.values()) - sum(map(sum, walls.values()))
    environment = (row.results or {}).get("environment") or {}
    return _Earlier(
        arms={
            new: _Spent(starts[old], sum(walls[old]) / len(walls[old]))
            for new, old in names.items()
            if old in starts and old in walls
        },
        beside_s=max(0.0, beside_s / len(ran)),
        gpus=int(environment.get("gpus") or 0),
    )


def list_advice(spec: Experiment, resolved: ResolvedExperiment, plan: TrialPlan) -> list[str]:
    """What the experiment will not be able to say, and what it leaves to chance."""
    return [*_advise_on_arms(spec, resolved), *_advise_on_plan(spec, plan)]


def _advise_on_arms(spec: Experiment, resolved: ResolvedExperiment) -> list[str]:
    found: list[str] = []
    if len(resolved.arms) == 1:
        found.append("one arm: there is nothing to compare it with")
    if resolved.simulated:
        found.append("simulated: timings come from the spec, not from an engine")
    left = sorted(
        {
            key
            for arm in spec.arms
            for settings in (spec.engine, arm.engine)
            for key, value in settings.model_dump(exclude_unset=True).items()
            if value is None
        }
    )
    if left:
        found.append(f"left to vLLM, which may choose differently for each arm: {', '.join(left)}")
    return found


def _advise_on_plan(spec: Experiment, plan: TrialPlan) -> list[str]:
    from app.stats.sample import explain_no_percentile

    found: list[str] = []
    blocks = spec.plan.blocks
    if len(plan.arms) > 1 and blocks < 2:
        found.append("one block: no interval, so no verdict; plan.blocks: 6 is the default")
    elif len(plan.arms) > 1 and blocks < 4:
        found.append(f"{blocks} blocks: only large differences will show; plan.blocks: 6 is the default")
    if len(plan.arms) > 1 and 1 < spec.plan.starts < 4:
        found.append(f"{spec.plan.starts} starts: only large differences will show; 4 or more are better")
    if spec.plan.warmup_trials == 0:
        found.append("no warm-up: the first trial of every arm pays for it")
    if plan.samples_per_trial is not None:
        short = [reason for p in (90, 99) if (reason := explain_no_percentile(plan.samples_per_trial, p)) is not None]
        if short:
            found.append(f"percentiles without a value: {'; '.join(short)} (per trial)")
    return found
