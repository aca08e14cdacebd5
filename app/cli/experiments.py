"""rollout-lab list, show, cancel"""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.common import AsJson, ExperimentId, Url, connect, console, tell


class StatusFilter(StrEnum):
    """Where an experiment is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SortKey(StrEnum):
    """What a list is sorted by."""

    CREATED_AT = "created_at"
    FINISHED_AT = "finished_at"
    NAME = "name"


class Direction(StrEnum):
    """Which end comes first."""

    ASC = "asc"
    DESC = "desc"


def list_experiments(
    *,
    status: Annotated[list[StatusFilter] | None, typer.Option(help="Only these; may be repeated.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY:VALUE", help="Only with this label.")] = None,
    name: Annotated[str, typer.Option(help="Only with this in the name.")] = "",
    created_after: Annotated[
        str, typer.Option(metavar="TIME", help="Submitted then or later: a date (UTC), or an RFC 3339 time.")
    ] = "",
    created_before: Annotated[str, typer.Option(metavar="TIME", help="Submitted before then.")] = "",
    sort: Annotated[SortKey, typer.Option(help="By finished_at: only what has finished.")] = SortKey.CREATED_AT,
    order: Annotated[Direction | None, typer.Option(help="Default: newest first, names from A to Z.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    url: Url = "",
    as_json: AsJson = False,
) -> None:
    """List experiments, newest first unless sorted otherwise."""
    from app.cli.render import build_experiment_table

    with connect(url) as client:
        found = list(
            client.experiments(
                limit,
                status=[str(s) for s in status or ()],
                label=label,
                name=name,
                created_after=created_after,
                created_before=created_before,
                sort=str(sort),
                order=order and str(order),
            )
        )
    if as_json:
        _print_json(found)
    elif found:
        console().print(build_experiment_table(found))
    else:
        tell("No experiments.")


def show(experiment_id: ExperimentId, url: Url = "", as_json: AsJson = False) -> None:
    """Show an experiment and its results, partial while it runs."""
    from app.cli.render import print_experiment

    with connect(url) as client:
        experiment = client.experiment(experiment_id)
        results = client.results(experiment_id)
        page = client.page_of(experiment_id)
    if as_json:
        _print_json({"experiment": experiment, "results": results})
    else:
        print_experiment(console(), experiment, results, page)


def cancel(experiment_id: ExperimentId, url: Url = "") -> None:
    """Cancel an experiment; finished trials are kept."""
    with connect(url) as client:
        status = client.cancel(experiment_id)["status"]
    tell("Asked its worker to stop." if status == "running" else f"The experiment is {status}.")


def _print_json(document: Any) -> None:
    tell(json.dumps(document, indent=2, ensure_ascii=False))
