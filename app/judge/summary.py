"""The one honest sentence: it never says more than the verdict."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import assert_never

from app.format import percent
from app.judge.taken import contrast
from app.judge.verdict import PER_GPU, Comparison, Verdict, lead_comparisons
from app.measure.records import StartedArm
from app.spec.lifecycle import Failure, Status
from app.spec.resolution import ResolvedExperiment

MOST_NAMED = 3  # reasons or settings a sentence names before it says how many more there are


def write_summary(
    resolved: ResolvedExperiment,
    status: Status,
    comparisons: Sequence[Comparison],
    *,
    arms: Sequence[StartedArm] = (),
    blocks_done: int,
    blocks_planned: int,
    failure: Failure | None = None,
    withheld: str | None = None,
) -> str:
    """What became of the experiment, then one finding per candidate on output throughput (per GPU where the arms have
    unequal numbers of them), and on the other primary metrics where they come to another verdict; several stand on
    lines of their own.

    `withheld`: why there may be no verdict yet.
    """
    news = tell_news(status, blocks_done, blocks_planned, failure)
    leads = lead_comparisons(comparisons)
    told = {one.candidate: one.verdict for one in leads}
    # Of the same work both primary metrics say the same; where they do not, both are said.
    main = [one for one in comparisons if one in leads or (one.primary and one.verdict is not told.get(one.candidate))]
    findings: list[str] = []
    if len(resolved.arms) == 1:
        findings.append(f"{resolved.baseline} is the only arm: there is nothing to compare it with.")
    elif blocks_done or status is Status.SUCCEEDED:
        findings += [tell_finding(comparison, resolved, arms, withheld) for comparison in main]
    simulated = ["Simulated."] if resolved.simulated else []
    beginning = " ".join([*simulated, *news])
    return (" " if len(findings) == 1 else "\n").join(filter(None, [beginning, *findings]))


def tell_news(status: Status, done: int, planned: int, failure: Failure | None) -> Iterator[str]:
    """Where the experiment is, unless it has succeeded."""
    blocks = f"{done} of {planned} blocks"
    match status:
        case Status.QUEUED:
            yield "Queued: nothing has run yet."
        case Status.RUNNING:
            yield f"Running: {blocks} are done."
        case Status.SUCCEEDED:
            return
        case Status.FAILED:
            where = f" in {failure.arm}" if failure is not None and failure.arm is not None else ""
            why = "for an unknown reason" if failure is None else f"with {failure.code}{where}: {failure.detail}"
            yield f"Failed after {blocks} {why.rstrip('.')}."
        case Status.CANCELLED:
            yield f"Cancelled after {blocks}."
        case _:
            assert_never(status)


def tell_finding(
    comparison: Comparison, resolved: ResolvedExperiment, started: Sequence[StartedArm], withheld: str | None
) -> str:
    """What one comparison came to."""
    match comparison.verdict:
        case Verdict.SLOWER | Verdict.FASTER:
            margin = f": {comparison.verdict}, but within the {_write_margin(comparison)} margin"
            said = f"{_tell_change(comparison)}{margin if comparison.within_margin else ''}"
            return f"{said}. {tell_settings(comparison, resolved, started)}{_tell_provisos(comparison)}"
        case Verdict.SAME:
            return f"{_tell_change(comparison)}: same within {_write_margin(comparison)}.{_tell_provisos(comparison)}"
        case Verdict.INCONCLUSIVE:
            return tell_inconclusive(comparison, withheld)
        case Verdict.CONFOUNDED:
            numbers = _write_numbers(comparison)
            measured = f" What was measured on {_name_metric(comparison)}, {numbers}, may come from that."
            names = f"{comparison.candidate} and {comparison.baseline} cannot be compared"
            return f"{names}: {_name_some(comparison.reasons)}.{measured if numbers else ''}"
        case _:
            assert_never(comparison.verdict)


def _tell_change(comparison: Comparison) -> str:
    """The change and its interval, both counted in the direction of the sentence's own word."""
    change, interval = comparison.change_pct, comparison.interval_pct
    assert change is not None  # noqa: S101 - a verdict needs an estimate
    assert interval is not None  # noqa: S101
    low, high = (-interval[1], -interval[0]) if change < 0 else interval
    none = percent(change) == percent(0)
    if none and comparison.verdict is Verdict.SAME:
        amount = f"as fast as {comparison.baseline}"
    else:
        faster = (change > 0) == comparison.higher_is_better
        size = "less than 0.001 %" if none else percent(abs(change))
        amount = f"{size} {'faster' if faster else 'slower'} than {comparison.baseline}"
    return (
        f"{comparison.candidate} is {amount} on {_name_metric(comparison)} ({_write_interval(comparison, low, high)})"
    )


def tell_inconclusive(comparison: Comparison, withheld: str | None) -> str:
    """What can be said without a verdict, and what would decide."""
    names = f"{comparison.candidate} against {comparison.baseline} on {_name_metric(comparison)}"
    numbers = _write_numbers(comparison)
    if withheld is not None:
        return f"{names}: {numbers or 'no number yet'}; no verdict, {withheld}."
    if comparison.interval_pct is None or comparison.detectable_effect_pct is None:
        measured = f"; measured {numbers}" if numbers else ""
        return f"{names}: no verdict, {'; '.join(comparison.reasons)}{measured}."
    needed = comparison.blocks_needed
    more = "more than 1000 would be needed" if needed is None else f"about {needed} would probably decide"
    blocks = f"{comparison.pairs} blocks"
    if comparison.known_spread is not None:
        more = "several starts (plan.starts) can show more, further blocks on one start cannot"
    elif comparison.start_sd_pct is not None:
        blocks += f" on {comparison.starts} starts"
        if needed is not None:
            starts = math.ceil(needed * comparison.starts / comparison.pairs)
            more = f"about {needed} on {starts} starts would probably decide"
    return (
        f"{names} is inconclusive: {numbers}. {blocks} reliably show only differences of "
        f"{percent(comparison.detectable_effect_pct)} or more; {more}."
    )


def tell_settings(comparison: Comparison, resolved: ResolvedExperiment, started: Sequence[StartedArm]) -> str:
    """The settings in force in which the arms differ: the verdict is about all of them together."""
    arms = {arm.name: arm for arm in resolved.arms}
    found = contrast(arms[comparison.candidate], arms[comparison.baseline], started)
    named = [
        f"{key} ({_write_value(ours)} against {_write_value(theirs)})" for key, (ours, theirs) in found.in_force.items()
    ]
    unread = [
        f"{key} (asked: {_write_value(ours)} against {_write_value(theirs)}), which could not be read back"
        for key, (ours, theirs) in found.unread.items()
    ]
    differing = f"They differ in {_name_some(named)}." if named else ""
    asked = f"They may differ in {_name_some(unread)}." if unread else ""
    return " ".join(filter(None, [differing, asked])) or "Their settings are the same."


def _tell_provisos(comparison: Comparison) -> str:
    return "".join(f" {proviso[0].upper()}{proviso[1:]}." for proviso in comparison.provisos)


def _write_numbers(comparison: Comparison) -> str:
    if comparison.change_pct is None:
        return ""
    change = percent(comparison.change_pct, signed=True)
    if comparison.interval_pct is None:
        return change
    return f"{change} ({_write_interval(comparison, *comparison.interval_pct)})"


def _write_interval(comparison: Comparison, low: float, high: float) -> str:
    confidence = f"{100 * comparison.confidence:.3g} %"
    blocks = f"{comparison.pairs} block" + ("" if comparison.pairs == 1 else "s")
    if comparison.start_sd_pct is not None:
        blocks += f" on {comparison.starts} starts"
    return f"{confidence} interval {percent(low, signed=True)} to {percent(high, signed=True)}, {blocks}"


def _name_some(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NAMED
    named = "; ".join(texts[:MOST_NAMED])
    return f"{named}; and {more} more" if more > 0 else named


def _write_value(value: object) -> str:
    return json.dumps(value).strip('"')


def _name_metric(comparison: Comparison) -> str:
    names = {PER_GPU: "output throughput per GPU", "duration_s": "duration"}
    return names.get(comparison.metric, comparison.metric.replace("_", " "))


def _write_margin(comparison: Comparison) -> str:
    return f"{comparison.margin_pct:g} %"
