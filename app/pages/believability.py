"""What a reader asks before believing a verdict, answered in a line each."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from app.format import listing, percent, plural
from app.judge.clocks import HELD_BACK_PCT
from app.judge.results import Results, TrialReport
from app.judge.verdict import lead_comparisons
from app.pages.subject import Subject
from app.spec.plan import Phase


class Finding(StrEnum):
    """How a question is answered."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A question, its answer, and where on the page the evidence is."""

    question: str
    state: Finding
    answer: str
    where: str


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What a measured trial met, or why it does not count."""

    trial: TrialReport
    met: tuple[str, ...]


def list_doubts(subject: Subject) -> list[Doubt]:
    """Configurations, work, blocks, neighbours, clocks, and what the verdict leaves open; none without a comparison."""
    results = subject.results
    if not subject.candidates or not results.comparisons:
        return []
    parity, fairness = results.parity, results.fairness
    unequal = () if fairness is None else tuple(one for one in fairness.differences if one.setting is None)
    checks = [
        Doubt("Configured alike", Finding.OPEN, "not known", "parity")
        if parity is None
        else Doubt(
            "Configured alike", Finding.NO, f"{plural(len(parity.undeclared), 'difference')} undeclared", "parity"
        )
        if parity.undeclared
        else Doubt("Configured alike", Finding.YES, "but for what the spec says", "parity"),
        Doubt("Same work", Finding.OPEN, "not known", "fairness")
        if fairness is None
        else Doubt("Same work", Finding.NO, listing([one.what.replace("_", " ") for one in unequal]), "fairness")
        if unequal
        else Doubt("Same work", Finding.YES, f"in {plural(fairness.blocks, 'block')}", "fairness"),
    ]
    provisos = dict.fromkeys(proviso for one in lead_comparisons(results.comparisons) for proviso in one.provisos)
    left_open = [Doubt("Left open", Finding.OPEN, proviso, "provisos") for proviso in provisos]
    return [*checks, *check_trials(results), *left_open]


def check_trials(results: Results) -> Iterator[Doubt]:
    """Whether all trials count, and what they met."""
    measured = [trial for trial in results.trials if trial.phase is Phase.MEASURED]
    dropped = [trial for trial in measured if trial.dropped is not None]
    blocks = [str(block) for block in sorted({trial.block for trial in dropped})]
    if dropped:
        said = f"{len(measured) - len(dropped)} of {len(measured)}, without block {listing(blocks)}"
        yield Doubt("Trials that count", Finding.OPEN, said, "conditions")
    else:
        yield Doubt("Trials that count", Finding.YES, f"all {len(measured)}", "conditions")
    beside = [trial for trial in measured if trial.neighbours]
    if beside:
        said = f"on the GPUs in {len(beside)} of {plural(len(measured), 'trial')}"
        yield Doubt("Neighbours", Finding.OPEN, said, "conditions")
    held = max(((share, why) for trial in measured for why, share in trial.held_back_pct.items()), default=(0.0, ""))
    if held[0] >= HELD_BACK_PCT:
        yield Doubt("Clocks", Finding.OPEN, f"held back by {held[1]}, up to {percent(held[0])}", "conditions")


def list_left_open(results: Results) -> dict[str, list[str]]:
    """What verdicts leave open: proviso -> candidates and metrics."""
    found: dict[str, list[str]] = {}
    for one in results.comparisons:
        for proviso in one.provisos if one.primary else ():
            found.setdefault(proviso, []).append(f"{one.candidate}, {one.metric}")
    return found


def list_disturbances(results: Results) -> list[Disturbance]:
    """Measured trials that do not count, or met something that the reader should know of, in their order."""
    found = []
    for trial in results.trials:
        held = [(why, share) for why, share in trial.held_back_pct.items() if share >= HELD_BACK_PCT]
        met = (*trial.neighbours, *(f"held back by {why} in {percent(share)} of the trial" for why, share in held))
        if trial.phase is Phase.MEASURED and (met or trial.dropped is not None):
            found.append(Disturbance(trial, met))
    return found
