"""The answer: what `GET /v1/experiments/{id}/results` says, and the sentence that sums it up."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never

from pydantic import Field, create_model

from app.judge.blocks import explain_drop, group_blocks, has_succeeded, list_finished
from app.judge.comparison import Comparison, Method, Verdict, compare
from app.judge.continuation import Continuation
from app.judge.effects import compare_work_of_arms
from app.judge.fairness import Fairness
from app.judge.fingerprint import EnvironmentReport, describe_environment
from app.judge.luck import NoiseFloor
from app.judge.neighbours import describe_neighbours, measure_held_back_pct
from app.judge.parity import ParityReport, check_parity
from app.judge.summary import write_summary
from app.judge.taken import NotTaken, list_not_read_back, list_not_taken
from app.judge.verdict import sort_worst_first
from app.judge.warnings import (
    ResultWarning,
    warn_of_continuation,
    warn_of_noise,
    warn_of_outliers,
    warn_of_settings,
    warn_of_trials,
    warn_of_work,
)
from app.measure.metrics import METRICS, STATISTICS, Kind, Metric, TrialSummary
from app.measure.records import StartedArm, TrialState
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.lifecycle import Failure, Status
from app.spec.plan import Phase, TrialPlan
from app.spec.resolution import ResolvedArm, ResolvedExperiment
from app.spec.workload import NaturalOutput
from app.stats.sample import mean, sample_std

__all__ = ["ArmResult", "Distribution", "NoiseFloor", "Results", "Scalar", "TrialReport", "TrialSummary"]


class Scalar(SpecModel):
    """A metric with one value per trial, over an arm's measured trials."""

    mean: float | None = Field(description="Mean over the trials; null where no trial has a value.", examples=[5765.4])
    std: float | None = Field(description="Standard deviation over the trials (n - 1).", examples=[6.1])
    per_trial: tuple[float | None, ...] = Field(
        description="Value of every measured trial that counts, in order.", examples=[[5761.0, 5769.7]]
    )
    missing: str | None = Field(None, description="Why a value is null.", examples=["no GPU telemetry"])


class Distribution(SpecModel):
    """A metric with one value per sample: each statistic is taken per trial and averaged over the trials."""

    mean: float | None = Field(description="Mean.", examples=[2839.0])
    std: float | None = Field(description="Standard deviation (n - 1).", examples=[1.2])
    p50: float | None = Field(description="Median.", examples=[2840.1])
    p90: float | None = Field(description="90th percentile; null below 64 samples.", examples=[2841.0])
    p95: float | None = Field(description="95th percentile; null below 130 samples.", examples=[2841.5])
    p99: float | None = Field(description="99th percentile; null below 662 samples.", examples=[None])
    missing: str | None = Field(None, description="Why a value is null.", examples=["p99 needs 662 values, got 32"])


class ArmReport(SpecModel):
    """One arm over its measured trials: what every arm has beside a field per metric."""

    name: str = Field(description="The arm.", examples=["sync"])
    profile: str = Field(description="Profile and version.", examples=["vllm-sync@1"])
    simulated: bool = Field(description="Whether no engine ran.")
    trials: int = Field(description="Measured trials that count.", examples=[6])
    not_taken: tuple[NotTaken, ...] = Field((), description="What the arm asks for and its engine did not take.")
    not_read_back: tuple[str, ...] = Field(
        (),
        description="Settings the arm asks for of which nothing tells whether they are in force.",
        examples=[["environment.python"]],
    )

    def metric(self, key: str) -> Scalar | Distribution:
        """The field of a metric, by its key in METRICS."""
        value = getattr(self, key)
        assert isinstance(value, Scalar | Distribution)  # noqa: S101 - METRICS and the fields are one table
        return value


def make_field(metric: Metric) -> Any:
    """The field of a metric in the model of an arm's results."""
    kind = Scalar if metric.kind is Kind.SCALAR else Distribution
    return (kind, Field(description=f"{metric.formula} Unit: {metric.unit}."))


if TYPE_CHECKING:
    ArmResult = ArmReport
else:
    ArmResult = create_model(
        "ArmResult",
        __base__=ArmReport,
        __doc__="One arm over its measured trials, with a field per metric.",
        **{key: make_field(metric) for key, metric in METRICS.items()},
    )


class TrialReport(SpecModel):
    """One trial."""

    slot: int = Field(description="Place in the order of trials of its phase, from 0.", examples=[0])
    phase: Phase = Field(description="Whether it counts.")
    block: int = Field(description="Block, from 0; for warm-ups the round.", examples=[0])
    position: int = Field(description="Place within the block, from 0.", examples=[0])
    arm: str = Field(description="Its arm.", examples=["sync"])
    fresh_engine: bool = Field(description="Whether the engine was started anew for it.")
    start: int = Field(0, description="Which start of the engines it ran on, from 0.", examples=[0])
    state: TrialState = Field(description="How it ended.")
    started_at: datetime = Field(description="When it began, UTC.", examples=["2026-01-31T12:00:00Z"])
    wall_s: float = Field(description="How long it took altogether, s.", examples=[2.91])
    error: str | None = Field(None, description="Why it failed.")
    dropped: str | None = Field(
        None,
        description="Why a measured trial does not count: it failed, was disturbed, or what it is compared with was. "
        "Null where it counts.",
        examples=["async was disturbed: other processes took 48 % of the CPUs"],
    )
    metrics: dict[str, float | None] = Field(
        description="Value by metric key; `ttft_ms.p50` for a statistic.", examples=[{"output_throughput": 5761.0}]
    )
    missing: dict[str, str] = Field(
        description="Why values are null, by metric key.", examples=[{"power_w": "no GPU telemetry"}]
    )
    neighbours: tuple[str, ...] = Field(
        (),
        description="Processes on the arm's GPUs that are none of the experiment's, with what they took.",
        examples=[["another process, python3 (pid 4711, 2.0 GiB) took 43 % of the SM time of GPU 0"]],
    )
    held_back_pct: dict[str, float] = Field(
        default_factory=dict,
        description="Share of the trial in which the arm's GPUs were held back, by reason, percent: the GPU held most.",
        examples=[{"power": 85.0, "heat": 0.0}],
    )


class Results(SpecModel):
    """Everything an experiment found, or has found so far."""

    experiment_id: str = Field(description="The experiment.", examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
    status: Status = Field(description="Where the experiment is.")
    complete: bool = Field(description="False while it runs, and if it failed or was cancelled.")
    simulated: bool = Field(description="True where any arm had no engine: such results never enter a series.")
    summary: str = Field(
        description="The answer in a sentence; it says no more than the verdict.",
        examples=[
            "Simulated. b is 9.1 % slower than a on output throughput (95 % interval +8.8 % to +9.4 %, 6 blocks)."
        ],
    )
    arms: tuple[ArmResult, ...] = Field(description="Every arm over its measured trials.")
    trials: tuple[TrialReport, ...] = Field(description="Every trial that ran.")
    comparisons: tuple[Comparison, ...] = Field(
        description="Every candidate against the baseline, metric by metric; primary metrics first."
    )
    parity: ParityReport | None = Field(
        description="Whether the arms' configurations differ only as declared; null before two engines have started."
    )
    fairness: Fairness | None = Field(description="Whether the arms did equal work; null before a block is done.")
    noise: NoiseFloor | None = Field(
        None, description="What comparing these arms with themselves gave here (`calibrate`); null if nobody did."
    )
    explanation: None = Field(None, description="This version does not split a gap into causes.")
    warnings: tuple[ResultWarning, ...] = Field(description="What limits the meaning of the results.")
    continuation: Continuation | None = Field(
        None, description="What became of blocks that earlier attempts had finished; null if there were none."
    )
    failure: Failure | None = Field(None, description="Why the experiment failed.")
    environment: EnvironmentReport | None = Field(description="Where it ran; null before an engine has started.")
    method: Method = Field(description="Method behind every estimate and verdict.")

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the primary comparisons of all candidates came to, the worst first: that one is the experiment's."""
        return sort_worst_first(comparison.verdict for comparison in self.comparisons if comparison.primary)

    def verdict_on(self, candidate: str) -> Verdict | None:
        """The worst of a candidate's primary comparisons; None where it has none."""
        own = [one.verdict for one in self.comparisons if one.primary and one.candidate == candidate]
        return next(iter(sort_worst_first(own)), None)


def build_results(
    experiment_id: str,
    *,
    spec: Experiment,
    resolved: ResolvedExperiment,
    plan: TrialPlan,
    status: Status,
    arms: Sequence[StartedArm],
    trials: Sequence[TrialSummary],
    failure: Failure | None = None,
    noise: NoiseFloor | None = None,
    continuation: Continuation | None = None,
    workload_sha256: str | None = None,
) -> Results:
    """Everything there is to say, from whatever there is: works at every moment of an experiment's life."""
    blocks = group_blocks(trials)
    done = len(list_finished(blocks, plan))
    measured = [trial for by_arm in blocks.values() for trial in by_arm.values()]
    dropped = {id(trial): explain_drop(blocks, trial, resolved.baseline) for trial in measured}
    counted = [trial for trial in measured if dropped[id(trial)] is None]
    natural = isinstance(spec.workload.output, NaturalOutput)
    several = len(resolved.arms) > 1
    ran_whole = any(
        all(name in by_arm and has_succeeded(by_arm[name]) for name in plan.arms) for by_arm in blocks.values()
    )
    fairness = compare_work_of_arms(blocks, resolved.arms, arms, natural=natural) if several and ran_whole else None
    withheld = explain_withheld(status)
    comparisons = compare(spec, resolved, trials, arms, withheld=withheld, noise=noise)
    return Results(
        experiment_id=experiment_id,
        status=status,
        complete=status is Status.SUCCEEDED,
        simulated=resolved.simulated,
        summary=write_summary(
            resolved,
            status,
            comparisons,
            arms=arms,
            blocks_done=done,
            blocks_planned=spec.plan.blocks,
            failure=failure,
            withheld=withheld,
        ),
        arms=tuple(report_arm(arm, counted, arms) for arm in resolved.arms),
        trials=tuple(report_trial(trial, dropped.get(id(trial))) for trial in trials),
        comparisons=comparisons,
        parity=check_parity(resolved.arms, arms) if several and len(arms) > 1 else None,
        fairness=fairness,
        explanation=None,
        noise=noise,
        warnings=(
            *warn_of_trials(spec, resolved, plan, status, blocks),
            *warn_of_settings(resolved, arms),
            *warn_of_work(fairness, counted),
            *warn_of_outliers(comparisons),
            *warn_of_noise(comparisons, noise),
            *warn_of_continuation(continuation),
        ),
        continuation=continuation,
        failure=failure,
        environment=describe_environment(spec, resolved, arms, workload_sha256=workload_sha256) if arms else None,
        method=Method(),
    )


def explain_withheld(status: Status) -> str | None:
    """A verdict is read when the plan says so: whoever stops when the numbers please them finds what they like.

    One read after a failure and another after its retry would raise 9 % false alarms (docs/method.md).
    """
    match status:
        case Status.QUEUED | Status.RUNNING:
            return "the experiment is not done"
        case Status.CANCELLED | Status.FAILED:
            return "the experiment ended where no plan foresaw it; a retry goes on with its blocks"
        case Status.SUCCEEDED:
            return None
        case _:
            assert_never(status)


def report_arm(arm: ResolvedArm, trials: Sequence[TrialSummary], arms: Sequence[StartedArm]) -> ArmResult:
    """One arm over its trials that count."""
    started = next((one for one in arms if one.arm == arm.name), None)
    counted = sorted((one for one in trials if one.planned.arm == arm.name), key=lambda trial: trial.planned.slot)
    return ArmResult(
        name=arm.name,
        profile=arm.profile,
        simulated=arm.simulated,
        trials=len(counted),
        not_taken=() if started is None else list_not_taken(arm, started),
        not_read_back=() if started is None else list_not_read_back(arm, started),
        **{key: aggregate(metric, counted) for key, metric in METRICS.items()},
    )


def aggregate(metric: Metric, trials: Sequence[TrialSummary]) -> Scalar | Distribution:
    """A metric over an arm's trials."""
    reasons = [
        trial.missing.get(key, "not measured")
        for trial in trials
        for key in metric.value_keys
        if trial.metrics.get(key) is None
    ]
    missing = "; ".join(dict.fromkeys(reasons)) or None if trials else "no trial counts"
    if metric.kind is Kind.DISTRIBUTION:
        means = {name: mean(_list_known(trials, f"{metric.key}.{name}")) for name in STATISTICS}
        return Distribution(**means, missing=missing)
    known = _list_known(trials, metric.key)
    return Scalar(
        mean=mean(known),
        std=sample_std(known),
        per_trial=tuple(trial.metrics.get(metric.key) for trial in trials),
        missing=missing,
    )


def _list_known(trials: Sequence[TrialSummary], key: str) -> list[float]:
    return [value for trial in trials if (value := trial.metrics.get(key)) is not None]


def report_trial(trial: TrialSummary, dropped: str | None) -> TrialReport:
    """A trial as results say it."""
    return TrialReport(
        **trial.planned.model_dump(),
        state=trial.state,
        started_at=datetime.fromtimestamp(trial.started_at, UTC),
        wall_s=trial.wall_s,
        error=trial.error,
        dropped=dropped,
        metrics=trial.metrics,
        missing=trial.missing,
        neighbours=tuple(describe_neighbours(trial)),
        held_back_pct=measure_held_back_pct(trial),
    )
