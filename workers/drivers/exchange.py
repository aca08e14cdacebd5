"""What the vLLM drivers share: requests out, records in. Written once, so that the arms cannot drift apart."""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import vllm.exceptions
from vllm import SamplingParams
from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from app.errors import InvalidWorkload
from app.format import listing
from app.measure.records import RequestRecord
from app.spec.experiment import AsyncLlmDriver, LlmDriver, OutputKind, Samples
from workers.drivers.base import Batch, Request
from workers.drivers.parameters import list_parameters

OUTPUT_KINDS: dict[OutputKind, RequestOutputKind] = {
    OutputKind.FINAL_ONLY: RequestOutputKind.FINAL_ONLY,
    OutputKind.DELTA: RequestOutputKind.DELTA,
    OutputKind.CUMULATIVE: RequestOutputKind.CUMULATIVE,
}


@dataclass(slots=True)
class Sample:
    """What is known of one sample while it is generated."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int = 0  # of the prompt that the engine ran, not of the one it was asked to run
    left: float | None = None  # a server, if there is one
    delivered: float | None = None
    # Who knows the sample's own stamps (`stats`) and cached tokens: vLLM's state of a child, if it is one of several.
    # An output of several samples carries those of one of them, whichever came last.
    child: Any = None
    stats: Any = None  # vLLM's RequestStateStats
    cached_tokens: int | None = None
    # Of a stream, per output: engine time of its last token, and how many tokens there were by then. Numbers only:
    # lists and tuples that are kept make Python's garbage collector run, and walk them, during the trial.
    stamps: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One request to the engine: a prompt and the samples asked for with it."""

    request_id: str
    prompt: Any  # vLLM's TokensInput
    params: SamplingParams
    arrival_s: float | None
    samples: list[Sample]
    streams: bool
    delta: bool  # whether an output holds new tokens only
    arrived: float | None = None  # when it should have started, if that is known only during the trial
    sent: float = 0.0
    received: float | None = None  # by a server, if there is one
    prepared: float | None = None


def make_calls(batch: Batch, settings: LlmDriver | AsyncLlmDriver, kind: RequestOutputKind) -> list[Call]:
    """The batch as engine requests; each has its own SamplingParams, because vLLM writes into them.

    With ``samples: n_parameter`` the samples of a prompt go in one request; vLLM then gives sample i the seed
    ``seed + i``, which is how the workload numbers them.
    """
    if settings.samples is Samples.SEPARATE_REQUESTS:
        groups = [[request] for request in batch.requests]
    else:
        groups = [list(group) for _, group in groupby(batch.requests, key=lambda request: request.prompt_index)]
    return [
        Call(
            request_id=group[0].request_id,
            prompt=tokens_input(list(group[0].prompt_token_ids)),
            params=_make_params(group, settings, kind),
            arrival_s=group[0].arrival_s,
            samples=[Sample(request) for request in group],
            streams=kind is not RequestOutputKind.FINAL_ONLY,
            delta=kind is RequestOutputKind.DELTA,
        )
        for group in groups
    ]


def split_calls(calls: list[Call], size: int | None) -> list[list[Call]]:
    """Calls of so many samples each, one after the other; all at once without a size."""
    if size is None:
        return [calls]
    requests = size // len(calls[0].samples)
    return [calls[begin : begin + requests] for begin in range(0, len(calls), requests)]


def arrive(calls: Sequence[Call], now: float) -> None:
    """The calls should start now."""
    for call in calls:
        call.arrived = now


def _make_params(
    group: Sequence[Request], settings: LlmDriver | AsyncLlmDriver, kind: RequestOutputKind
) -> SamplingParams:
    parameters: dict[str, Any] = list_parameters(group[0], settings)
    unknown = parameters.keys() - _KNOWN
    if unknown:
        raise InvalidWorkload(f"vLLM {vllm.__version__} has no sampling parameter {listing(sorted(unknown))}")
    for name, build in _BUILDERS.items():
        if name in parameters:
            parameters[name] = build(parameters[name])
    return SamplingParams(n=len(group), output_kind=kind, **parameters)


def _build_repetition_detection(said: Any) -> Any:
    from vllm.sampling_params import RepetitionDetectionParams  # not there before 0.27

    return RepetitionDetectionParams(**said)


_KNOWN = frozenset(SamplingParams.__struct_fields__)
# What vLLM has types of its own for. It writes into some, so that every request has one of its own.
_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "structured_outputs": lambda said: StructuredOutputsParams(**said),
    "repetition_detection": _build_repetition_detection,
    "logit_bias": lambda said: {int(token): bias for token, bias in said.items()},
}


# Newer versions have errors of their own, older ones raise plain ones.
_REFUSALS: tuple[type[Exception], ...] = (ValueError, getattr(vllm.exceptions, "VLLMClientError", ValueError))


@contextmanager
def explain_refusals() -> Iterator[None]:
    """What vLLM refuses of a request, as InvalidWorkload: another engine would refuse it too."""
    try:
        yield
    except _REFUSALS as error:
        raise InvalidWorkload(f"vLLM refuses a request: {error}") from None


def take(call: Call, output: Any, now: float) -> None:
    """Keep what an engine output says of the call's samples; those that are complete are delivered ``now``.

    Of a stream this runs for every token, so that numbers are only put aside, to be made sense of after the trial.
    """
    for completion in output.outputs:
        sample = call.samples[completion.index]
        ids = completion.token_ids
        if call.streams:
            if call.delta:
                sample.tokens += ids
                ids = sample.tokens
            stats = output.metrics if sample.child is None else sample.child.stats
            sample.stamps.append(stats.last_token_ts)
            sample.counts.append(len(ids))
        if completion.finish_reason is not None:
            sample.tokens = ids
            sample.finish_reason = completion.finish_reason
            sample.prompt_tokens = len(output.prompt_token_ids)
            state = sample.child
            sample.stats = output.metrics if state is None else state.stats
            sample.cached_tokens = output.num_cached_tokens if state is None else state.num_cached_tokens
            sample.delivered = now


@contextmanager
def keep_child_states(output_processor: Any, calls: Sequence[Call]) -> Iterator[None]:
    """For requests with n > 1: vLLM reports times and cached tokens of one child for the group; keep every child's own.

    Children register with the output processor one by one; their state, which holds both, is picked up there.
    """
    by_id = {call.request_id: call for call in calls if len(call.samples) > 1}
    if not by_id:
        yield
        return
    register = output_processor.add_request

    def add_request(request: Any, prompt: Any, parent_req: Any, request_index: int, *rest: Any) -> None:
        register(request, prompt, parent_req, request_index, *rest)
        if (call := by_id.get(request.external_req_id)) is not None:
            call.samples[request_index].child = output_processor.request_states[request.request_id]

    output_processor.add_request = add_request
    try:
        yield
    finally:
        del output_processor.add_request


def make_records(calls: Sequence[Call], began: float) -> tuple[RequestRecord, ...]:
    """Records of every delivered sample, in the batch's order; all times relative to ``began``."""
    return tuple(
        _make_record(call, sample, began) for call in calls for sample in call.samples if sample.delivered is not None
    )


def _make_record(call: Call, sample: Sample, began: float) -> RequestRecord:
    request, stats = sample.request, sample.stats
    arrived_s = request.arrival_s if call.arrived is None else call.arrived - began
    assert sample.delivered is not None  # noqa: S101 - the caller filters
    assert arrived_s is not None  # noqa: S101 - planned, or seen during the trial
    tokens = array("q", sample.tokens)
    return RequestRecord(
        request_id=request.request_id,
        prompt_index=request.prompt_index,
        sample_index=request.sample_index,
        replica=0,
        turn=0,
        prompt_tokens=sample.prompt_tokens,
        output_tokens=len(tokens),
        cached_tokens=sample.cached_tokens,
        finish_reason=sample.finish_reason,
        output_sha256=hashlib.sha256(tokens.tobytes()).hexdigest(),
        arrived_s=arrived_s,
        sent_s=call.sent - began,
        received_s=None if call.received is None else call.received - began,
        prepared_s=None if call.prepared is None else call.prepared - began,
        queued_s=_read_time(stats, "queued_ts", began),
        scheduled_s=_read_time(stats, "scheduled_ts", began),
        first_token_s=_read_time(stats, "first_token_ts", began),
        last_token_s=_read_time(stats, "last_token_ts", began),
        left_s=None if sample.left is None else sample.left - began,
        delivered_s=sample.delivered - began,
        preemptions=getattr(stats, "num_preemptions", None),
        itl_ms=_measure_gaps_ms(sample.stamps, sample.counts) if sample.stamps else None,
    )


def _read_time(stats: Any, name: str, began: float) -> float | None:
    stamp = getattr(stats, name, None)
    # vLLM leaves stamps at 0.0 until they are known.
    return stamp - began if stamp else None


def _measure_gaps_ms(stamps: Sequence[float], counts: Sequence[int]) -> tuple[float, ...]:
    """Inter-token gaps; an output of k tokens, whose inner times nobody saw, is k equal gaps."""
    gaps: list[float] = []
    before, seen = None, 0
    for at, count in zip(stamps, counts, strict=True):
        new = count - seen
        if not new:
            continue
        if before is not None:
            gaps += [1000.0 * (at - before) / new] * new
        before, seen = at, count
    return tuple(gaps)
