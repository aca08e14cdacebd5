"""Experiments and results as tables."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from app.cli.common import escape
from app.cli.progress import place
from app.format import NOTHING, ago, interval, number, percent, spread
from app.report.remarks import find_verdict, list_pairs, list_remarks

Object = dict[str, Any]
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
    console.print(f"Submitted by {escape(experiment['submitted_by'])}")
    if experiment["queue_position"]:
        console.print(f"In the queue: {place(experiment['queue_position'])}")
    if experiment["retry_of"]:
        console.print(f"Retries: {experiment['retry_of']}")
    if experiment["error"]:
        print_failure(console, experiment["error"])
    for attempt in experiment["attempts"]:
        if attempt["error"] and attempt["attempt"] < experiment["attempt"]:
            console.print(f"Attempt {attempt['attempt']} on {escape(attempt['owner'])}:")
            print_failure(console, attempt["error"])
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
        console.print(build_arm_table(results["arms"]))
    for (candidate, baseline), found in list_pairs(results["comparisons"]).items():
        console.print(f"[bold]{escape(candidate)}[/bold] against [bold]{escape(baseline)}[/bold]")
        console.print(build_comparison_table(found))
    whole = not console.is_terminal  # a line that a script looks for is not cut in two
    for remark in list_remarks(results):
        console.print(f"- {escape(remark)}", soft_wrap=whole)
    console.print()
    console.print(f"[bold]{escape(results['summary'])}[/bold]", soft_wrap=whole)
    console.print(page, soft_wrap=True)


def build_arm_table(arms: Iterable[Object]) -> Table:
    """One row per arm."""
    table = make_table("arm", "trials", "output tokens/s", "latency p50 ms", "p90 ms", "p99 ms")
    for arm in arms:
        throughput, latency = arm["output_throughput"], arm["e2el_ms"]
        table.add_row(
            escape(f"{arm['name']} ({arm['profile']})"),
            str(arm["trials"]),
            f"{number(throughput['mean'])} {spread(throughput['std'])}",
            *(number(latency[key]) for key in ("p50", "p90", "p99")),
        )
    return table


def build_comparison_table(comparisons: Iterable[Object]) -> Table:
    """One row per metric that can be compared."""
    table = make_table("metric", "change", "interval", "blocks", "verdict")
    for found in comparisons:
        if found["change_pct"] is None and not found["primary"]:
            continue
        style = _VERDICT_STYLES.get(found["verdict"], "")
        verdict = find_verdict(found)
        table.add_row(
            f"[bold]{escape(found['metric'])}[/bold] (primary)" if found["primary"] else escape(found["metric"]),
            percent(found["change_pct"], signed=True),
            interval(found["interval_pct"]),
            str(found["pairs"]),
            f"[{style}]{verdict}[/{style}]" if style else verdict,
        )
    return table


def build_experiment_table(experiments: Iterable[Object]) -> Table:
    """One row per experiment."""
    table = make_table("id", "status", "name", "model", "verdict", "submitted", "by", "progress", left=8)
    for experiment in experiments:
        progress = experiment["progress"]
        done = f"{progress['trials_done']}/{progress['trials_total']}" if progress else NOTHING
        table.add_row(
            experiment["id"],
            experiment["status"],
            escape(experiment["name"]) or NOTHING,
            escape(experiment["model"]) + (" (simulated)" if experiment["simulated"] else ""),
            experiment["verdict"] or NOTHING,
            ago(datetime.fromisoformat(experiment["created_at"])),
            escape(experiment["submitted_by"]),
            done,
        )
    return table


def make_table(*columns: str, left: int = 1) -> Table:
    """A table without rows; so many columns are flushed left, numbers right."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left or column == "verdict" else "right", overflow="fold")
    return table
