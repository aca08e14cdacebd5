"""An experiment's charts, by the name their data is found under."""

from collections.abc import Callable, Iterator

from app.judge.results import TrialReport
from app.judge.verdict import PER_GPU, Comparison, lead_comparisons
from app.measure.records import TrialState
from app.pages.charts.ecdf import Curve, ecdf, pooled
from app.pages.charts.figure import Address, Figure
from app.pages.charts.intervals import intervals
from app.pages.charts.noise import noise
from app.pages.charts.pairs import pairs
from app.pages.charts.schedule import Cells, schedule
from app.pages.charts.shape import ArmShape, shape
from app.pages.charts.state import ArmState, engine_state
from app.pages.choice import Choice
from app.pages.digests import digest_of, state_of
from app.pages.subject import Subject
from app.pages.words import isolate
from app.spec.lifecycle import Status
from app.spec.plan import Phase
from app.store.database import Database


def progress_figure(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """Which trials are done."""
    states = {
        (trial.arm, trial.block): "done" if trial.state is TrialState.SUCCEEDED else "failed"
        for trial in subject.results.trials
        if trial.phase is Phase.MEASURED
    }
    progress = subject.item.progress
    if subject.item.status is Status.RUNNING and progress is not None and progress.current is not None:
        states.setdefault((progress.current.arm, progress.current.block), "running")
    return schedule(Cells(subject.arms, subject.row.spec.plan.blocks, states))


def verdict_figure(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """The primary metrics of the only candidate, or the throughput of each of several."""
    primary = [found for found in subject.results.comparisons if found.primary]
    if len({found.candidate for found in primary}) <= 1:
        return intervals("verdict", "The verdict", primary)
    main = sorted(lead_comparisons(primary), key=_effect)
    labels = [found.candidate for found in main]
    baseline = subject.row.spec.baseline_name
    per_gpu = " (per GPU where they have unequal numbers of them)" * any(found.metric == PER_GPU for found in main)
    return intervals("verdict", f"Output throughput{per_gpu} against {isolate(baseline)}", main, labels)


def _effect(comparison: Comparison) -> float:
    return -comparison.change_pct if comparison.change_pct is not None else float("inf")


def metrics_figure(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """Every metric of one candidate."""
    candidate = choice.candidate or ""
    found = [one for one in subject.comparisons_of(candidate) if one.change_pct is not None]
    title = f"{isolate(candidate)} against {isolate(subject.row.spec.baseline_name)}, metric by metric"
    return intervals("metrics", title, found, query={"candidate": candidate})


def pairs_figure(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """One metric's blocks."""
    for found in subject.comparisons_of(choice.candidate or ""):
        if found.metric == choice.metric:
            return pairs(found)
    return Figure("pairs", "Block by block", "There is no comparison whose blocks could be drawn.")


def latency_figure(db: Database, subject: Subject, choice: Choice) -> Figure:
    """The distribution of one latency, per arm."""
    metric = choice.latency or ""
    curves = [curve for arm in choice.arm if (curve := _curve(db, subject, arm, metric)) is not None]
    return ecdf(metric, curves, _query(subject, choice, latency=metric), len(subject.arms) - len(choice.arm))


def _curve(db: Database, subject: Subject, arm: str, metric: str) -> Curve | None:
    digests = [
        digest_of(db, subject.item, trial.slot)
        for trial in _measured(subject)
        if trial.arm == arm and trial.dropped is None
    ]
    parts = [digest.latencies[metric] for digest in digests if digest is not None and metric in digest.latencies]
    if not parts:
        return None
    return Curve(arm, subject.arms.index(arm), sum(count for _, count in parts), pooled(parts))


def shape_figure(db: Database, subject: Subject, choice: Choice) -> Figure:
    """Every request of one block."""
    block, chosen = _block(subject, choice)
    arms = [
        ArmShape(trial.arm, subject.arms.index(trial.arm), digest.strips)
        for trial in chosen
        if (digest := digest_of(db, subject.item, trial.slot)) is not None
    ]
    return shape(arms, block, _query(subject, choice, block=block))


def engine_figure(db: Database, subject: Subject, choice: Choice) -> Figure:
    """The engines during one block."""
    block, chosen = _block(subject, choice)
    arms = [
        ArmState(trial.arm, subject.arms.index(trial.arm), state)
        for trial in chosen
        if (state := state_of(db, subject.item, trial.slot)) is not None
    ]
    return engine_state(arms, block, _query(subject, choice, block=block))


def noise_figure(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """The effect beside what equal arms gave."""
    main = lead_comparisons(subject.results.comparisons)
    return noise(main, subject.results.noise)


def blocks_with_records(subject: Subject) -> list[int]:
    """Blocks that a shape can be drawn of."""
    return sorted({trial.block for trial in _measured(subject)})


def _block(subject: Subject, choice: Choice) -> tuple[int | None, list[TrialReport]]:
    """The block that was chosen, or the last that every chosen arm has finished; and its trials."""
    by_block: dict[int, dict[str, TrialReport]] = {}
    for trial in _measured(subject):
        by_block.setdefault(trial.block, {})[trial.arm] = trial
    complete = [block for block, by_arm in by_block.items() if set(choice.arm) <= set(by_arm)]
    block = choice.block if choice.block in by_block else max(complete or by_block, default=None)
    if block is None:
        return None, []
    return block, [by_block[block][arm] for arm in choice.arm if arm in by_block[block]]


def _measured(subject: Subject) -> Iterator[TrialReport]:
    known = set(subject.arms)
    for trial in subject.results.trials:
        if trial.phase is Phase.MEASURED and trial.state is TrialState.SUCCEEDED and trial.arm in known:
            yield trial


def _query(subject: Subject, choice: Choice, **asked: object) -> Address:
    query: Address = {key: str(value) for key, value in asked.items() if value is not None}
    return query if list(choice.arm) == list(subject.arms) else query | {"arm": choice.arm}


FIGURES: dict[str, Callable[[Database, Subject, Choice], Figure]] = {
    "progress": progress_figure,
    "verdict": verdict_figure,
    "metrics": metrics_figure,
    "pairs": pairs_figure,
    "latency": latency_figure,
    "shape": shape_figure,
    "engine": engine_figure,
    "noise": noise_figure,
}
