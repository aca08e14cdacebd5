"""Writing a spec: checked while it is typed, submitted when it is right."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import InvalidInput, TooManyRequests
from app.http.admission import Who
from app.http.basics import Config, Db, make_link
from app.pages.arms import Setting, list_settings
from app.pages.forms import Form
from app.pages.resubmission import write_spec
from app.pages.shell import PageRouter, render_fragment, render_page, wants_fragment
from app.pages.subject import load as load_subject
from app.service import intake
from app.service.cost import Cost
from app.settings import Settings
from app.spec.document import Document, load
from app.spec.experiment import Experiment
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedExperiment
from app.store.database import Database

router = PageRouter()

EXAMPLE = """\
name: sync against async
labels: {suite: demo}
model: {preset: tiny-qwen2}
workload:
  prompts:
    source: synthetic
    count: 8
    tokens: {distribution: fixed, value: 128}
  samples_per_prompt: 16
  output:
    stop: length
    tokens: {distribution: lognormal, median: 96, sigma: 0.6, max: 512}
arms:
  - {name: sync, profile: vllm-sync}
  - {name: async, profile: vllm-async}
baseline: sync
plan: {blocks: 6}
"""


@dataclass(frozen=True, slots=True)
class FormProblem:
    """One thing wrong with a spec."""

    line: int | None
    pointer: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a spec would do, or everything that is wrong with it."""

    problems: tuple[FormProblem, ...] = ()
    spec: Experiment | None = None
    resolved: ResolvedExperiment | None = None
    plan: TrialPlan | None = None
    cost: Cost | None = None
    advice: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()


@router.get("/submit")
def get_form(request: Request, db: Db, settings: Config, like: str = "") -> Response:
    """An empty form with an example in it, or with the spec of an experiment."""
    text = write_spec(load_subject(db, like).row.submitted) if like else EXAMPLE
    return _form_page(request, text, secrets.token_hex(8), rehearse(db, settings, text))


@router.post("/submit/check")
def check(request: Request, db: Db, settings: Config, form: Form) -> Response:
    """What would come of the text as it is now; queues nothing."""
    rehearsal = rehearse(db, settings, form.get("spec", ""))
    return render_fragment(request, "rehearsal.html", title="Submit", back="/submit", final=False, rehearsal=rehearsal)


@router.post("/submit")
def submit(request: Request, db: Db, settings: Config, caller: Who, form: Form) -> Response:
    """Queue the experiment and go to its page; sent twice by a nervous finger, it is queued once."""
    text, ticket = form.get("spec", ""), form.get("ticket", "")[:64] or secrets.token_hex(8)
    rehearsal = rehearse(db, settings, text)
    if rehearsal.spec is None:
        return _form_page(request, text, ticket, rehearsal, 422)
    key = f"page-{ticket}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        queued = intake.submit(db, rehearsal.spec, settings, caller, key)
    except TooManyRequests as error:
        return _form_page(request, text, ticket, Rehearsal((FormProblem(None, "", error.detail),)), error.status)
    where = make_link(request, f"/experiments/{queued.experiment_id}")
    if wants_fragment(request):
        return Response(status_code=204, headers={"HX-Redirect": where})
    return RedirectResponse(where, 303)


def _form_page(request: Request, text: str, ticket: str, rehearsal: Rehearsal, status: int = 200) -> Response:
    shown: dict[str, Any] = {"text": text, "ticket": ticket, "rehearsal": rehearsal}
    return render_page(request, "submit.html", status, **shown)


def rehearse(db: Database, settings: Settings, text: str) -> Rehearsal:
    """Read, resolve and plan a spec without queueing it."""
    document = Document(None)
    try:
        document = load(text)
        spec = intake.read_spec(document.value, settings)
        found = intake.preview(db, spec)
    except InvalidInput as error:
        return Rehearsal(tuple(locate_problem(one.pointer, one.detail, document) for one in error.errors))
    return Rehearsal(
        spec=spec,
        resolved=found.resolved,
        plan=found.plan,
        cost=found.cost,
        advice=found.advice,
        settings=tuple(list_settings(found.resolved.arms, everything=False)),
    )


def locate_problem(pointer: str, detail: str, document: Document) -> FormProblem:
    """A problem with its line: of the value it points at, or the line the parser names itself."""
    if detail.startswith("line ") and not pointer:
        number, _, said = detail.removeprefix("line ").partition(": ")
        if number.isdecimal():
            return FormProblem(int(number), pointer, said)
    return FormProblem(document.line_of(pointer), pointer, detail)
