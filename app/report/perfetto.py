"""Trials as a trace that ui.perfetto.dev and chrome://tracing open (Trace Event Format)."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.measure.metrics import TrialSummary
from app.measure.parts import MOMENTS, find_spans
from app.measure.records import EngineSample, RequestRecord

_MICROSECONDS = 1_000_000.0
_LANE = 1


def name_process(number: int, arm: str) -> dict[str, Any]:
    """Every arm is a process."""
    return {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": arm}}


def build_trial_events(
    number: int,
    trial: TrialSummary,
    began_s: float,
    samples: Iterable[EngineSample],
    records: Iterable[RequestRecord],
) -> Iterator[dict[str, Any]]:
    """One trial of an arm: itself, the engine's counters, the phases of every request. Times from ``began_s`` on."""
    offset_s = trial.started_at - began_s
    yield {
        "ph": "X",
        "name": f"trial {trial.planned.slot} (block {trial.planned.block})",
        "pid": number,
        "tid": _LANE,
        "ts": offset_s * _MICROSECONDS,
        "dur": trial.wall_s * _MICROSECONDS,
        "args": {"state": trial.state},
    }
    for sample in samples:
        yield from list_counters(number, offset_s + sample.at_s, sample)
    for record in records:
        yield from list_phases(number, trial.planned.slot, offset_s, record)


def list_counters(number: int, at_s: float, sample: EngineSample) -> Iterator[dict[str, Any]]:
    """Counters after one step of an engine."""
    for name, values in (
        ("requests", {"running": sample.running, "waiting": sample.waiting}),
        ("kv_cache_usage_pct", {"used": sample.kv_cache_usage_pct}),
        ("tokens per step", {"prompt": sample.prompt_tokens, "output": sample.output_tokens}),
    ):
        yield {"ph": "C", "name": name, "pid": number, "tid": 0, "ts": at_s * _MICROSECONDS, "args": values}


def list_phases(number: int, slot: int, offset_s: float, record: RequestRecord) -> Iterator[dict[str, Any]]:
    """The parts of its time."""
    unknown = [moment for moment in MOMENTS if getattr(record, moment) is None]
    common = {"cat": "request", "id": f"{slot}/{record.request_id}", "pid": number, "tid": 0}
    for span in find_spans(unknown):
        start_s, end_s = getattr(record, span.begin), getattr(record, span.end)
        if end_s > start_s:
            yield {"ph": "b", "name": span.name, "ts": (offset_s + start_s) * _MICROSECONDS, **common}
            yield {"ph": "e", "name": span.name, "ts": (offset_s + end_s) * _MICROSECONDS, **common}
