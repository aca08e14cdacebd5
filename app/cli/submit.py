"""rollout-lab submit, calibrate, retry, watch"""

import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.cli.common import AsJson, Exit, ExperimentId, Url, connect, console, say, tell
from app.errors import InvalidInput, Refused, Unreachable
from app.spec.document import Document, load, load_yaml

if TYPE_CHECKING:
    from app.cli.progress import Display
    from app.client import Client

Object = dict[str, Any]
T = TypeVar("T")

POLL_S = 1.0
PATIENCE_S = 300.0  # how long a service may be away while somebody waits
_TERMINAL = frozenset({"succeeded", "failed", "cancelled"})


class FailOn(StrEnum):
    """A verdict that makes the command fail."""

    SLOWER = "slower"
    FASTER = "faster"
    CONFOUNDED = "confounded"
    INCONCLUSIVE = "inconclusive"


FailOns = Annotated[
    list[FailOn] | None,
    typer.Option("--fail-on", help="Exit with 3 if a primary comparison comes to this; may be repeated."),
]


def submit(
    file: Annotated[Path, typer.Argument(help="Spec in YAML or JSON; - is stdin.")],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the comparison.")] = False,
    fail_on: FailOns = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the spec: plan.blocks=2, arms.0.name=x, …"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do and cost.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> None:
    """Submit an experiment."""
    document, lines = _build_document(file)
    value = document.value
    for assignment in set_ or ():
        value = _assign(value, assignment)
    submission = Submission(file, lines, document, value)
    _submit(submission, url, wait=wait or bool(fail_on), fail_on=fail_on or [], dry_run=dry_run, as_json=as_json)


def calibrate(
    file: Annotated[Path, typer.Argument(help="Spec in YAML or JSON; - is stdin.")],
    *,
    arm: Annotated[str, typer.Option(help="Which of its arms; the baseline if not given.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the noise.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> None:
    """Run one arm of a spec against itself, and keep the noise that later results of it are judged beside."""
    document, lines = _build_document(file)
    value = _pair_with_itself(document.value, arm)
    submission = Submission(file, lines, document, value)
    _submit(submission, url, wait=wait, fail_on=[], dry_run=False, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Submission:
    """A spec on its way to the service, and where it came from."""

    file: Path
    lines: list[str]
    document: Document
    value: Any


def _submit(
    submission: Submission, url: str, *, wait: bool, fail_on: list[FailOn], dry_run: bool, as_json: bool
) -> None:
    with connect(url) as client:
        try:
            if dry_run:
                _print_rehearsal(client.rehearse(submission.value), as_json)
                return
            experiment = client.submit(submission.value, idempotency_key=secrets.token_hex(16))
        except Refused as refused:
            if refused.http_status != InvalidInput.status:
                raise
            _print_problems(refused, submission.file, submission.lines, submission.document)
            raise typer.Exit(Exit.USAGE) from None
        _tell(client, experiment, wait=wait, fail_on=fail_on, as_json=as_json)


def _tell(client: "Client", experiment: Object, *, wait: bool, fail_on: list[FailOn], as_json: bool) -> None:
    if wait:
        say(f"Submitted {experiment['id']}; {client.page_of(experiment['id'])}")
        _wait(client, experiment["id"], fail_on, as_json)
    elif as_json:
        _print_json(experiment)
    else:
        tell(experiment["id"])
        say(client.page_of(experiment["id"]))


def retry(
    experiment_id: ExperimentId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the comparison.")] = False,
    fail_on: FailOns = None,
    url: Url = "",
    as_json: AsJson = False,
) -> None:
    """Run a failed or cancelled experiment again; blocks it had finished on an equal engine are not run again."""
    with connect(url) as client:
        experiment = client.retry(experiment_id)
        _tell(client, experiment, wait=wait or bool(fail_on), fail_on=fail_on or [], as_json=as_json)


def watch(experiment_id: ExperimentId, fail_on: FailOns = None, url: Url = "", as_json: AsJson = False) -> None:
    """Wait for an experiment's end and print the comparison."""
    with connect(url) as client:
        client.experiment(experiment_id)
        _wait(client, experiment_id, fail_on or [], as_json)


# --- the spec ------------------------------------------------------------------------------------------------------


def _build_document(file: Path) -> tuple[Document, list[str]]:
    text = sys.stdin.buffer.read() if str(file) == "-" else _read(file)
    return load(text), text.decode(errors="replace").splitlines()


def _pair_with_itself(value: Any, arm: str) -> Any:
    """The spec with one arm, to be run against itself; what is wrong with the spec is the service's to say."""
    if not isinstance(value, dict) or not isinstance(value.get("arms"), list):
        return value
    arms = [one for one in value["arms"] if isinstance(one, dict)]
    wanted = arm or value.get("baseline") or (arms[0].get("name") if arms else "")
    chosen = [one for one in arms if one.get("name") == wanted]
    if not chosen:
        names = ", ".join(str(one.get("name")) for one in arms)
        raise InvalidInput(f"no arm is called {wanted!r}; the arms are {names}")
    return {key: item for key, item in value.items() if key != "baseline"} | {"arms": chosen[:1], "calibrate": True}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None


def _assign(document: object, assignment: str) -> object:
    """The document with one value changed."""
    key, equals, text = assignment.partition("=")
    if not equals or not key:
        raise InvalidInput(f"--set {assignment}: write KEY=VALUE, such as plan.blocks=2")
    if not isinstance(document, dict):
        return document
    here: Any = document
    *path, last = key.split(".")
    try:
        for step in path:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        if isinstance(here, list):
            here[int(last)] = load_yaml(text).value
        else:
            here[last] = load_yaml(text).value
    except (ValueError, IndexError, TypeError, AttributeError):
        raise InvalidInput(f"--set {assignment}: the spec has no such place") from None
    return document


def _print_problems(refused: Any, file: Path, lines: list[str], document: Document) -> None:
    name = "<stdin>" if str(file) == "-" else str(file)
    if not refused.errors:
        say(f"{name}: {refused.detail}")
    for error in refused.errors:
        line = document.line_of(error.pointer)
        say(f"{name}{f':{line}' if line else ''}: {error.pointer}{': ' if error.pointer else ''}{error.detail}")
        if line and line <= len(lines):
            say(f"  {line:4} | {lines[line - 1]}")


def _print_rehearsal(found: Object, as_json: bool) -> None:
    if as_json:
        _print_json(found)
        return
    cost = found["cost"]
    tell(
        f"{cost['trials']} measured trials in the order {cost['order']}, {cost['warmup_trials']} to warm up, "
        f"{cost['engine_starts']} engine starts"
    )
    if cost["estimated_s"] is None:
        tell(f"No estimate of the time: {cost['reason']}.")
    else:
        tell(f"About {cost['estimated_s']:.0f} s, as experiment {cost['based_on']} took.")
    if cost["detectable_effect_pct"] is not None:
        noise, least = cost["noise_pct"], cost["detectable_effect_pct"]
        tell(f"It will show differences from {least:.2g} % on: the arms alone vary by {noise:.2g} % per block.")
    for warning in found["warnings"]:
        tell(f"- {warning}")


def _print_json(document: Object) -> None:
    import json

    tell(json.dumps(document, indent=2, ensure_ascii=False))


# --- waiting -------------------------------------------------------------------------------------------------------


def _wait(client: "Client", experiment_id: str, fail_on: list[FailOn], as_json: bool) -> None:
    try:
        from app.cli.progress import Bars, Lines

        out = console()
        with Bars(out) if out.is_terminal and not as_json else Lines() as display:
            experiment = _follow(client, experiment_id, display)
            results = _ask_patiently(lambda: client.results(experiment_id), display)
    except KeyboardInterrupt:
        say(f"Stopped waiting; the experiment goes on. `rollout-lab watch {experiment_id}` waits again.")
        raise typer.Exit(Exit.INTERRUPTED) from None
    from app.report.remarks import list_verdicts

    _report(experiment, results, client.page_of(experiment_id), as_json)
    if experiment["status"] != "succeeded":
        raise typer.Exit(Exit.TROUBLE)
    hit = [verdict for verdict in list_verdicts(results) if verdict.value in fail_on]
    if hit:
        say(f"--fail-on: {', '.join(hit)}")
        raise typer.Exit(Exit.VERDICT)
    nothing = [
        found for found in results["comparisons"] if found["metric"] == "output_throughput" and not found["pairs"]
    ]
    for found in nothing:
        say(f"No block counts for {found['candidate']}: {found['dropped_blocks'][0]['reason']}")
    if nothing:
        raise typer.Exit(Exit.TROUBLE)


def _report(experiment: Object, results: Object, page: str, as_json: bool) -> None:
    from app.cli.render import print_failure, print_results

    if as_json:
        _print_json({"experiment": experiment, "results": results})
        return
    out = console()
    if experiment["error"]:
        print_failure(out, experiment["error"])
    print_results(out, results, page)


def _follow(client: "Client", experiment_id: str, display: "Display") -> Object:
    """Until its end, whatever happens to the service meanwhile."""
    while True:
        experiment = _ask_patiently(lambda: client.experiment(experiment_id), display)
        display.show(experiment)
        if experiment["status"] in _TERMINAL:
            return experiment
        time.sleep(POLL_S)


def _ask_patiently(ask: Callable[[], T], display: "Display") -> T:
    """Ask again while the service is away."""
    deadline: float | None = None
    while True:
        try:
            answer = ask()
        except Unreachable as error:
            if deadline is None:
                display.note(f"{error.detail}; trying again")
                deadline = time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            if deadline is not None:
                display.note("the service is back")
            return answer
