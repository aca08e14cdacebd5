"""Experiments and results as tables."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Object = dict[str, Any]
NOTHING = "-"
_SHOWN_DIFFERENCES = 10
_VERDICT_STYLES = {
    "slower": "red",
    "faster": "green",
    "same": "cyan",
    "confounded": "magenta",
    "inconclusive": "yellow",
}


def print_experiment(console: Console, experiment: Object, results: Object, page: str) -> None:
    """Everything a terminal should show of an experiment."""
    title = f"{experiment['id']}  {experiment['name']}".rstrip()
    state = (
        f"{experiment['status']}, attempt {experiment['attempt']}" if experiment["attempt"] else experiment["status"]
    )
    console.print(f"[bold]{escape(title)}[/bold] ({state})")
    if experiment["queue_position"]:
        console.print(f"Place in the queue: {experiment['queue_position']}")
    if experiment["failure"]:
        print_failure(console, experiment["failure"])
    print_results(console, results, page)


def print_failure(console: Console, failure: Object) -> None:
    """Why an experiment failed, and the engine's last words."""
    arm = f" (arm {failure['arm']})" if failure["arm"] else ""
    console.print(f"[red]Failed[/red]: {escape(failure['code'] + arm)}: {escape(failure['detail'])}")
    if failure["log_tail"]:
        console.print(escape(failure["log_tail"].rstrip()), style="dim")


def print_results(console: Console, results: Object, page: str) -> None:
    """Arms, comparisons, remarks, the sentence."""
    if results["simulated"]:
        console.print("[bold]SIMULATED[/bold]: timings come from the spec, not from an engine.")
    if any(arm["trials"] for arm in results["arms"]):
        console.print(arm_table(results["arms"]))
    if results["comparisons"]:
        console.print(comparison_table(results["comparisons"]))
    for remark in remarks(results):
        console.print(f"- {escape(remark)}")
    console.print()
    console.print(f"[bold]{escape(results['summary'])}[/bold]")
    console.print(page, soft_wrap=True)


def arm_table(arms: Iterable[Object]) -> Table:
    """One row per arm."""
    table = _table("arm", "trials", "output tokens/s", "latency p50 ms", "p90 ms", "p99 ms")
    for arm in arms:
        throughput, latency = arm["output_throughput"], arm["e2el_ms"]
        table.add_row(
            escape(f"{arm['name']} ({arm['profile']})"),
            str(arm["trials"]),
            f"{number(throughput['mean'])} ± {number(throughput['std'])}",
            *(number(latency[key]) for key in ("p50", "p90", "p99")),
        )
    return table


def comparison_table(comparisons: Sequence[Object]) -> Table:
    """One row per comparison that found anything."""
    table = _table("metric", "compared", "change", "interval", "blocks", "verdict")
    for found in comparisons:
        if found["change_pct"] is None and not found["primary"]:
            continue
        interval = found["interval_pct"]
        style = _VERDICT_STYLES.get(found["verdict"], "")
        verdict = found["verdict"] + (", within the margin" if _is_small(found) else "")
        table.add_row(
            escape(found["metric"]) + ("" if found["primary"] else " [dim](secondary)[/dim]"),
            escape(f"{found['candidate']} against {found['baseline']}"),
            percent(found["change_pct"]),
            f"{percent(interval[0])} to {percent(interval[1])}" if interval else NOTHING,
            str(found["pairs"]),
            f"[{style}]{verdict}[/{style}]" if style else verdict,
        )
    return table


def experiment_table(experiments: Iterable[Object]) -> Table:
    """One row per experiment."""
    table = _table("id", "status", "name", "model", "verdict", "submitted", "progress", left=7)
    for experiment in experiments:
        progress = experiment["progress"]
        done = f"{progress['trials_done']}/{progress['trials_total']}" if progress else NOTHING
        table.add_row(
            experiment["id"],
            experiment["status"],
            escape(experiment["name"]) or NOTHING,
            escape(experiment["model"]) + (" (simulated)" if experiment["simulated"] else ""),
            experiment["verdict"] or NOTHING,
            ago(experiment["created_at"]),
            done,
        )
    return table


def remarks(results: Object) -> list[str]:
    """What limits the comparison: parity, fairness, dropped blocks, warnings."""
    return [
        *_parity(results["parity"]),
        *_fairness(results["fairness"]),
        *dict.fromkeys(
            f"{found['candidate']}: {reason}" for found in results["comparisons"] for reason in found["reasons"]
        ),
        *(f"{'' if not w['arm'] else w['arm'] + ': '}{w['detail']}" for w in results["warnings"]),
    ]


def _parity(parity: Object | None) -> list[str]:
    if parity is None:
        return ["parity: not known, fewer than two engines have started"]
    if parity["equal"]:
        return [f"parity: the arms differ only as declared ({_keys(parity['declared'])})"]
    return [f"parity: differences nobody declared: {_keys(parity['undeclared'], values=True)}"]


def _keys(differences: Sequence[Object], *, values: bool = False) -> str:
    shown = [
        f"{d['key']} ({', '.join(f'{arm} {value}' for arm, value in d['values'].items())})" if values else d["key"]
        for d in differences[:_SHOWN_DIFFERENCES]
    ]
    more = len(differences) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "in nothing"


def _fairness(fairness: Object | None) -> list[str]:
    if fairness is None:
        return ["fairness: not known, no block is complete"]
    tokens = ", ".join(f"{arm} {count:,}" for arm, count in fairness["output_tokens"].items())
    same = fairness["identical_outputs_pct"]
    alike = "" if same is None else f"; {same:.1f} % of the samples have identical tokens"
    verdict = "the arms did equal work" if fairness["equal"] else "the arms did UNEQUAL work"
    return [f"fairness: {verdict} (output tokens: {tokens}){alike}"]


def number(value: float | None) -> str:
    """Four digits that matter."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """With its sign, a real minus among them."""
    return NOTHING if value is None else f"{value:+.1f} %".replace("-", "−")


def ago(moment: str) -> str:
    """How long since."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def _is_small(found: Object) -> bool:
    return bool(found["within_margin"]) and found["verdict"] in ("slower", "faster")


def _table(*columns: str, left: int = 2) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for index, column in enumerate(columns):
        words = index < left and (left > 2 or index != 1 or column == "compared")
        table.add_column(column, justify="left" if words or column == "verdict" else "right", overflow="fold")
    return table
