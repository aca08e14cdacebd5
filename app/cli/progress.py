"""What a waiting terminal shows: bars, or lines where there is no terminal."""

from collections import Counter
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from app.cli.common import escape
from app.format import seconds
from app.printable import printable

Object = dict[str, Any]
_STEPS = {
    "starting_engines": "starting engines",
    "warming_up": "warming up",
    "measuring": "measuring",
    "finishing": "comparing",
}


class Display(Protocol):
    """Where the state of an experiment goes."""

    def show(self, experiment: Object) -> None:
        """The experiment has come this far."""
        ...

    def note(self, text: str) -> None:
        """Something else has happened."""
        ...


def describe(experiment: Object) -> str:
    """Where the experiment is, in a line."""
    progress = experiment["progress"]
    if experiment["status"] == "queued":
        return f"queued, {place(experiment['queue_position'])}"
    if experiment["status"] != "running" or progress is None:
        return str(experiment["status"])
    parts = [_STEPS.get(progress["step"], progress["step"])]
    if progress["step"] == "measuring":
        parts.append(f"{progress['trials_done']} of {progress['trials_total']} trials done")
    if progress["current"] is not None:
        parts.append(f"now {progress['current']['arm']} in block {progress['current']['block'] + 1}")
    if progress["eta_s"] is not None:
        parts.append(f"about {seconds(progress['eta_s'])} left")
    if experiment["cancel_requested"]:
        parts.append("cancelling")
    return ", ".join(parts)


def place(position: int | None) -> str:
    """Where it is in the queue, which the service counts up to a thousand."""
    if position is None:
        return "place ?"
    return f"place {position}" if position <= 1000 else "behind more than 1,000 others"


class Lines(AbstractContextManager["Lines"]):
    """A line per change, to stderr."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, experiment: Object) -> None:
        """Print what is new; the remaining time alone is not."""
        progress = experiment["progress"]
        key = describe(experiment | {"progress": None if progress is None else progress | {"eta_s": None}})
        if key != self._last:
            self._last = key
            self.note(describe(experiment))

    def note(self, text: str) -> None:
        """Print it with the time."""
        typer.echo(f"{datetime.now(UTC):%H:%M:%S} {printable(text)}", err=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to tidy up."""


class Bars(AbstractContextManager["Bars"]):
    """A bar per arm, each as long as there are blocks, and a line that says what runs."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._arms: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, experiment: Object) -> None:
        """Move the bars."""
        plan, progress = experiment["plan"], experiment["progress"] or {}
        if plan is not None:
            measured = [trial["arm"] for trial in plan["details"]["trials"] if trial["phase"] == "measured"]
            done = Counter(measured[: progress.get("trials_done", 0)])
            now = progress.get("current") or {}
            for arm, blocks in Counter(measured).items():
                if arm not in self._arms:
                    self._arms[arm] = self._progress.add_task("", total=blocks)
                mark = "▶" if now.get("arm") == arm else " "
                self._progress.update(self._arms[arm], description=f"{mark} {escape(arm)}", completed=done[arm])
        self._live.update(Group(self._progress, Text(printable(describe(experiment)))))

    def note(self, text: str) -> None:
        """Print it above the bars."""
        self._live.console.print(Text(printable(text, lines=True)))
