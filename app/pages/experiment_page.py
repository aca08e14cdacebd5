"""The page of one experiment, and the parts of it that load or change later."""

import csv
import io
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Path
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from app.errors import NotFound
from app.format import spreadsheet_cell
from app.http.admission import Who
from app.http.basics import Db, get_settings, make_link
from app.judge.results import Results
from app.judge.verdict import Comparison, Verdict, lead_comparisons, sort_worst_first
from app.pages.arms import SIDE_BY_SIDE, explain_missing, list_measurements, list_settings, pick_main_measurements
from app.pages.believability import list_disturbances, list_doubts, list_left_open
from app.pages.charts.figure import Figure
from app.pages.charts.sparkline import draw_sparkline
from app.pages.choice import Choice, Chosen
from app.pages.digests import LATENCIES
from app.pages.figures import FIGURES, list_blocks
from app.pages.resubmission import write_curl, write_spec
from app.pages.shell import PageRouter, keep_unchanged, render_fragment, render_page, wants_fragment
from app.pages.subject import Subject, load
from app.pages.words import isolate_names, keep_together
from app.service.cancellation import cancel as cancel_experiment
from app.service.intake import retry as retry_experiment
from app.store import experiments
from app.store.database import Database
from app.store.ids import ExperimentId

router = PageRouter()
Id = Annotated[str, Path()]


@router.get("/experiments/{experiment_id}")
def get_experiment(request: Request, db: Db, experiment_id: Id, chosen: Chosen) -> Response:
    """Everything about an experiment; what needs request records is asked for when it is scrolled to."""
    subject = load(db, experiment_id)
    choice = chosen.fit(subject)
    if wants_fragment(request):
        return _answer_findings(request, db, subject, choice)
    return render_page(request, "experiment.html", **list_everything(request, db, subject, choice))


def list_everything(request: Request, db: Database, subject: Subject, choice: Choice) -> dict[str, Any]:
    """What the page and the report have in common."""
    return {
        **_list_common(subject, choice),
        **list_live(db, subject, choice),
        **list_findings(db, subject, choice),
        "curl": write_curl(request, subject.row.submitted),
        "spec": write_spec(subject.row.submitted),
    }


def _list_common(subject: Subject, choice: Choice) -> dict[str, Any]:
    return {
        "subject": subject,
        "item": subject.item,
        "row": subject.row,
        "results": subject.results,
        "choice": choice,
        "search": urlencode(choice.query, doseq=True),
        "base": f"/experiments/{subject.item.id}",
    }


@router.get("/experiments/{experiment_id}/live")
def get_live(request: Request, db: Db, experiment_id: Id, chosen: Chosen) -> Response:
    """Where it is: status, progress, history."""
    subject = load(db, experiment_id)
    if chosen.seen == subject.row.etag and wants_fragment(request):
        return keep_unchanged()
    choice = chosen.fit(subject)
    return _answer_part(request, subject, "live.html", choice, list_live(db, subject, choice))


@router.get("/experiments/{experiment_id}/findings")
def get_findings(request: Request, db: Db, experiment_id: Id, chosen: Chosen) -> Response:
    """What it has found so far: verdict, metrics, blocks, arms, parity, fairness."""
    subject = load(db, experiment_id)
    if chosen.seen == subject.seen and wants_fragment(request):
        return keep_unchanged()
    return _answer_findings(request, db, subject, chosen.fit(subject))


def _answer_findings(request: Request, db: Database, subject: Subject, choice: Choice) -> Response:
    return _answer_part(request, subject, "findings.html", choice, list_findings(db, subject, choice))


class Later(StrEnum):
    """Parts that read request records, and so come after the page."""

    LATENCY = "latency"
    SHAPE = "shape"
    ENGINE = "engine"


@router.get("/experiments/{experiment_id}/parts/{part}")
def get_part(request: Request, db: Db, experiment_id: Id, part: Later, chosen: Chosen) -> Response:
    """A chart of request records, or of the engines' state."""
    subject = load(db, experiment_id)
    if chosen.seen == subject.seen and wants_fragment(request):
        return keep_unchanged()
    choice = chosen.fit(subject)
    return _answer_part(request, subject, f"{part}.html", choice, list_later(db, subject, choice, part))


def list_later(db: Database, subject: Subject, choice: Choice, part: Later) -> dict[str, Any]:
    """What one of those parts shows."""
    figure = FIGURES[part](db, subject, choice)
    return {"part": part, "figure": figure, "latencies": LATENCIES, "blocks": list_blocks(subject)}


def list_live(db: Database, subject: Subject, choice: Choice) -> dict[str, Any]:
    """Status, progress, history."""
    return {
        "progress_figure": FIGURES["progress"](db, subject, choice),
        "events": experiments.list_events_after(db, ExperimentId(subject.item.id)),
    }


def list_findings(db: Database, subject: Subject, choice: Choice) -> dict[str, Any]:
    """Verdict, metrics, blocks, arms, parity, fairness, warnings."""
    results, arms = subject.results, subject.resolved.arms if subject.resolved is not None else ()
    many, main = len(subject.arms) > SIDE_BY_SIDE, find_only_comparison(subject)
    verdict = None if main is None else results.verdict_on(main.candidate)
    figures = {name: FIGURES[name](db, subject, choice) for name in ("verdict", "metrics", "pairs", "noise")}
    return {
        "sentences": keep_together(isolate_names(results.summary, subject.arms)).splitlines(),
        "verdict": verdict,
        "small": main is not None
        and main.within_margin
        and main.verdict is verdict in {Verdict.SLOWER, Verdict.FASTER},
        "tally": count_verdicts(results),
        "figures": figures,
        "worst": next(iter(results.verdicts), None),
        "main": lead_comparisons(results.comparisons),
        "checks": list_doubts(subject),
        "disturbances": list_disturbances(results),
        "left_open": list_left_open(results),
        "compared": subject.list_comparisons(choice.candidate) if choice.candidate else (),
        "settings": list_settings(arms, everything=choice.settings == "all") if arms else None,
        "arm_names": [arm.name for arm in arms],
        "many": many,
        "measured": pick_main_measurements(results.arms) if many else list_measurements(results.arms),
        "not_measured": explain_missing(results.arms),
    }


def find_only_comparison(subject: Subject) -> Comparison | None:
    """What the verdict on the page's head is: throughput, where there is one candidate."""
    main = lead_comparisons(subject.results.comparisons)
    return main[0] if len(main) == 1 else None


def count_verdicts(results: Results) -> dict[Verdict, int]:
    """How many candidates came to which verdict, the worst first."""
    candidates = dict.fromkeys(found.candidate for found in results.comparisons)
    told = [verdict for candidate in candidates if (verdict := results.verdict_on(candidate)) is not None]
    return {verdict: told.count(verdict) for verdict in sort_worst_first(told)}


def _answer_part(request: Request, subject: Subject, template: str, choice: Choice, shown: dict[str, Any]) -> Response:
    return render_fragment(
        request,
        template,
        title=subject.title,
        back=f"/experiments/{subject.item.id}",
        final=subject.terminal,
        **_list_common(subject, choice),
        **shown,
    )


# --- data ----------------------------------------------------------------------------------------------------------


class DataFormat(StrEnum):
    """How a chart's data comes."""

    CSV = "csv"
    JSON = "json"


@router.get("/experiments/{experiment_id}/data/{name}.{kind}")
def get_data(db: Db, experiment_id: Id, name: str, kind: DataFormat, chosen: Chosen) -> Response:
    """Exactly what a chart shows."""
    if name not in FIGURES:
        raise NotFound(f"there is no chart called {name}; there are {', '.join(FIGURES)}")
    subject = load(db, experiment_id)
    figure = FIGURES[name](db, subject, chosen.fit(subject))
    if kind is DataFormat.JSON:
        return JSONResponse({"columns": figure.columns, "items": figure.items()})
    headers = {"Content-Disposition": f'attachment; filename="{subject.item.id}-{name}.csv"'}
    return Response("".join(write_csv(figure)), media_type="text/csv; charset=utf-8", headers=headers)


def write_csv(figure: Figure) -> Iterator[str]:
    """A chart's data, its columns' names first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(figure.columns)
    writer.writerows([spreadsheet_cell(value) for value in row] for row in figure.rows)
    yield text.getvalue()


@router.get("/experiments/{experiment_id}/sparkline.svg")
def get_sparkline(request: Request, db: Db, experiment_id: Id) -> Response:
    """The primary comparison's blocks, in the space of a word."""
    item = experiments.get_item(db, ExperimentId(experiment_id))
    lasting = item.status.terminal and request.query_params.get("v") == str(item.version)
    headers = {"Cache-Control": "private, max-age=604800, immutable" if lasting else "no-cache"}
    results = load(db, experiment_id).results
    main = next(iter(lead_comparisons(results.comparisons)), None)
    changes = [] if main is None else [100 * (one.candidate / one.baseline - 1) for one in main.blocks if one.baseline]
    drawn = draw_sparkline(changes, 2.0 if main is None else main.margin_pct, next(iter(results.verdicts), None))
    return Response(str(drawn), media_type="image/svg+xml", headers=headers)


# --- acting --------------------------------------------------------------------------------------------------------


@router.post("/experiments/{experiment_id}/cancel")
def cancel(request: Request, db: Db, caller: Who, experiment_id: Id, chosen: Chosen) -> Response:
    """Ask for the end of it."""
    cancel_experiment(db, ExperimentId(experiment_id), caller)
    if not wants_fragment(request):
        return RedirectResponse(make_link(request, f"/experiments/{experiment_id}"), 303)
    subject = load(db, experiment_id)
    choice = chosen.fit(subject)
    return _answer_part(request, subject, "live.html", choice, list_live(db, subject, choice))


@router.post("/experiments/{experiment_id}/retry")
def retry(request: Request, db: Db, caller: Who, experiment_id: Id) -> Response:
    """Queue it once more, and go to where that can be watched."""
    queued = retry_experiment(db, ExperimentId(experiment_id), get_settings(request), caller)
    return RedirectResponse(make_link(request, f"/experiments/{queued.experiment_id}"), 303)
