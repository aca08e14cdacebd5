"""An experiment's charts, by the name their data is found under."""

from collections.abc import Callable, Iterator

from app.judge.results import TrialReport
from app.judge.verdict import PER_GPU, lead_comparisons
from app.measure.records import TrialState
from app.pages.charts.ecdf import Curve, plot_ecdf, pool
from app.pages.charts.figure import Address, Figure
from app.pages.charts.floor import plot_noise
from app.pages.charts.intervals import plot_intervals
from app.pages.charts.pairs import plot_pairs
from app.pages.charts.schedule import Cells, plot_schedule
from app.pages.charts.shape import ArmShape, plot_shape
from app.pages.charts.state import ArmState, plot_states
from app.pages.choice import Choice
from app.pages.digests import digest_records, digest_timeline
from app.pages.subject import Subject
from app.pages.words import isolate
from app.spec.lifecycle import Status
from app.spec.plan import Phase
from app.store.database import Database


def plot_progress(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """Which trials are done."""
    states = {
        (trial.arm, trial.block): "done" if trial.state is TrialState.SUCCEEDED else "failed"
        for trial in subject.results.trials
        if trial.phase is Phase.MEASURED
    }
    progress = subject.item.progress
    if subject.item.status is Status.RUNNING and progress is not None and progress.current is not None:
        states.setdefault((progress.current.arm, progress.current.block), "running")
    return plot_schedule(Cells(subject.arms, subject.row.spec.plan.blocks, states))


def plot_verdict(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """The primary metrics of the only candidate, or the throughput of each of several."""
    primary = [found for found in subject.results.comparisons if found.primary]
    if len({found.candidate for found in primary}) <= 1:
        return plot_intervals("verdict", "The verdict", primary)
    main = sorted(
        lead_comparisons(primary), key=lambda one: float("inf") if one.change_pct is None else -one.change_pct
    )
    labels = [found.candidate for found in main]
    baseline = subject.row.spec.baseline_name
    per_gpu = " (per GPU where they have unequal numbers of them)" * any(found.metric == PER_GPU for found in main)
    return plot_intervals("verdict", f"Output throughput{per_gpu} against {isolate(baseline)}", main, labels)


def plot_metrics(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """Every metric of one candidate."""
    candidate = choice.candidate or ""
    found = [one for one in subject.list_comparisons(candidate) if one.change_pct is not None]
    title = f"{isolate(candidate)} against {isolate(subject.row.spec.baseline_name)}, metric by metric"
    return plot_intervals("metrics", title, found, query={"candidate": candidate})


def plot_blocks(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """One metric's blocks."""
    for found in subject.list_comparisons(choice.candidate or ""):
        if found.metric == choice.metric:
            return plot_pairs(found)
    return Figure("pairs", "Block by block", "There is no comparison whose blocks could be drawn.")


def plot_latency(db: Database, subject: Subject, choice: Choice) -> Figure:
    """The distribution of one latency, per arm."""
    metric = choice.latency or ""
    curves = [curve for arm in choice.arm if (curve := pool_curve(db, subject, arm, metric)) is not None]
    return plot_ecdf(metric, curves, _make_query(subject, choice, latency=metric), len(subject.arms) - len(choice.arm))


def pool_curve(db: Database, subject: Subject, arm: str, metric: str) -> Curve | None:
    """One latency of an arm over all trials that count; None where no record has it."""
    digests = [
        digest_records(db, subject.item, trial.slot)
        for trial in _list_measured(subject)
        if trial.arm == arm and trial.dropped is None
    ]
    parts = [digest.latencies[metric] for digest in digests if digest is not None and metric in digest.latencies]
    if not parts:
        return None
    return Curve(arm, subject.arms.index(arm), sum(count for _, count in parts), pool(parts))


def plot_requests(db: Database, subject: Subject, choice: Choice) -> Figure:
    """Every request of one block."""
    block, chosen = _choose_block(subject, choice)
    arms = [
        ArmShape(trial.arm, subject.arms.index(trial.arm), digest.strips)
        for trial in chosen
        if (digest := digest_records(db, subject.item, trial.slot)) is not None
    ]
    return plot_shape(arms, block, _make_query(subject, choice, block=block))


def plot_engines(db: Database, subject: Subject, choice: Choice) -> Figure:
    """The engines during one block."""
    block, chosen = _choose_block(subject, choice)
    arms = [
        ArmState(trial.arm, subject.arms.index(trial.arm), state)
        for trial in chosen
        if (state := digest_timeline(db, subject.item, trial.slot)) is not None
    ]
    return plot_states(arms, block, _make_query(subject, choice, block=block))


def plot_floor(db: Database, subject: Subject, choice: Choice) -> Figure:  # noqa: ARG001
    """The effect beside what equal arms gave."""
    main = lead_comparisons(subject.results.comparisons)
    return plot_noise(main, subject.results.noise)


def list_blocks(subject: Subject) -> list[int]:
    """Blocks that a shape can be drawn of."""
    return sorted({trial.block for trial in _list_measured(subject)})


def _choose_block(subject: Subject, choice: Choice) -> tuple[int | None, list[TrialReport]]:
    """The block that was chosen, or the last that every chosen arm has finished; and its trials."""
    by_block: dict[int, dict[str, TrialReport]] = {}
    for trial in _list_measured(subject):
        by_block.setdefault(trial.block, {})[trial.arm] = trial
    complete = [block for block, by_arm in by_block.items() if set(choice.arm) <= set(by_arm)]
    block = choice.block if choice.block in by_block else max(complete or by_block, default=None)
    if block is None:
        return None, []
    return block, [by_block[block][arm] for arm in choice.arm if arm in by_block[block]]


def _list_measured(subject: Subject) -> Iterator[TrialReport]:
    known = set(subject.arms)
    for trial in subject.results.trials:
        if trial.phase is Phase.MEASURED and trial.state is TrialState.SUCCEEDED and trial.arm in known:
            yield trial


def _make_query(subject: Subject, choice: Choice, **asked: object) -> Address:
    query: Address = {key: str(value) for key, value in asked.items() if value is not None}
    return query if list(choice.arm) == list(subject.arms) else query | {"arm": choice.arm}


FIGURES: dict[str, Callable[[Database, Subject, Choice], Figure]] = {
    "progress": plot_progress,
    "verdict": plot_verdict,
    "metrics": plot_metrics,
    "pairs": plot_blocks,
    "latency": plot_latency,
    "shape": plot_requests,
    "engine": plot_engines,
    "noise": plot_floor,
}
