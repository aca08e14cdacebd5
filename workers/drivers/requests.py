"""What the vLLM drivers share: requests out, records in. Written once, so that the arms cannot drift apart."""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from typing import Any

from vllm import SamplingParams
from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind

from app.measure.records import RequestRecord
from app.spec.experiment import AsyncLlmDriver, LlmDriver, OutputKind, Samples
from workers.drivers.base import Batch, Request

OUTPUT_KINDS: dict[OutputKind, RequestOutputKind] = {
    OutputKind.FINAL_ONLY: RequestOutputKind.FINAL_ONLY,
    OutputKind.DELTA: RequestOutputKind.DELTA,
    OutputKind.CUMULATIVE: RequestOutputKind.CUMULATIVE,
}


@dataclass(slots=True)
class Sample:
    """What is known of one sample while it is generated."""

    request: Request
    tokens: "array[int]" = field(default_factory=lambda: array("q"))
    finish_reason: str | None = None
    cached_tokens: int | None = None
    stats: Any = None  # vLLM's RequestStateStats
    delivered: float | None = None
    # Of a stream: engine time of a chunk's last token, and its tokens or, if cumulative, how many there are by then.
    chunks: list[tuple[float, Sequence[int] | int]] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One request to the engine: a prompt and the samples asked for with it."""

    request_id: str
    prompt: Any  # vLLM's TokensInput
    params: SamplingParams
    arrival_s: float
    samples: list[Sample]
    delta: bool  # whether an output holds new tokens only
    sent: float = 0.0


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
            params=_sampling_params(group, batch, settings, kind),
            arrival_s=group[0].arrival_s,
            samples=[Sample(request) for request in group],
            delta=kind is RequestOutputKind.DELTA,
        )
        for group in groups
    ]


def _sampling_params(
    group: Sequence[Request], batch: Batch, settings: LlmDriver | AsyncLlmDriver, kind: RequestOutputKind
) -> SamplingParams:
    first = group[0]
    return SamplingParams(
        n=len(group),
        temperature=batch.sampling.temperature,
        top_p=batch.sampling.top_p,
        top_k=batch.sampling.top_k,
        ignore_eos=batch.sampling.ignore_eos,
        min_tokens=first.min_tokens,
        max_tokens=first.max_tokens,
        seed=first.seed,
        detokenize=settings.detokenize,
        logprobs=settings.logprobs,
        output_kind=kind,
    )


def keep_chunk(call: Call, output: Any) -> None:
    """Keep a streamed output of a call with one sample, to be read after the trial: this runs for every token.

    What vLLM goes on changing is read now: the stamps, and the tokens of a cumulative output.
    """
    ids = output.outputs[0].token_ids
    call.samples[0].chunks.append((output.metrics.last_token_ts, ids if call.delta else len(ids)))


def take(call: Call, output: Any) -> None:
    """Keep what an engine output says of the call's samples."""
    for completion in output.outputs:
        sample = call.samples[completion.index]
        if call.delta and not sample.chunks:
            sample.tokens.extend(completion.token_ids)
        if completion.finish_reason is not None:
            sample.finish_reason = completion.finish_reason
            sample.cached_tokens = output.num_cached_tokens
            if not call.delta:
                sample.tokens.extend(completion.token_ids)
            if len(call.samples) == 1:
                sample.stats = output.metrics


@contextmanager
def each_child_keeps_its_stats(output_processor: Any, calls: Sequence[Call]) -> Iterator[None]:
    """For requests with n > 1: vLLM reports the times of one child for the group; look at every child's own.

    Children register with the output processor one by one; their state, with its times, is picked up there.
    """
    by_id = {call.request_id: call for call in calls if len(call.samples) > 1}
    if not by_id:
        yield
        return
    register = output_processor.add_request

    def add_request(request: Any, prompt: Any, parent_req: Any, request_index: int, *rest: Any) -> None:
        register(request, prompt, parent_req, request_index, *rest)
        call = by_id[request.external_req_id]
        call.samples[request_index].stats = output_processor.request_states[request.request_id].stats

    output_processor.add_request = add_request
    try:
        yield
    finally:
        del output_processor.add_request


def records(calls: Sequence[Call], began: float) -> tuple[RequestRecord, ...]:
    """Records of every delivered sample, in the batch's order; all times relative to ``began``."""
    return tuple(
        _record(call, sample, began) for call in calls for sample in call.samples if sample.delivered is not None
    )


def _record(call: Call, sample: Sample, began: float) -> RequestRecord:
    request, stats = sample.request, sample.stats
    assert sample.delivered is not None  # noqa: S101 - the caller filters
    tokens = _tokens(sample)
    return RequestRecord(
        request_id=request.request_id,
        prompt_index=request.prompt_index,
        sample_index=request.sample_index,
        replica=0,
        turn=0,
        prompt_tokens=len(request.prompt_token_ids),
        output_tokens=len(tokens),
        cached_tokens=sample.cached_tokens,
        finish_reason=sample.finish_reason,
        output_sha256=hashlib.sha256(tokens.tobytes()).hexdigest(),
        arrived_s=request.arrival_s,
        sent_s=call.sent - began,
        queued_s=_engine_time(stats, "queued_ts", began),
        scheduled_s=_engine_time(stats, "scheduled_ts", began),
        first_token_s=_engine_time(stats, "first_token_ts", began),
        last_token_s=_engine_time(stats, "last_token_ts", began),
        delivered_s=sample.delivered - began,
        preemptions=getattr(stats, "num_preemptions", None),
        itl_ms=_gaps_ms(sample.chunks) if sample.chunks else None,
    )


def _tokens(sample: Sample) -> "array[int]":
    parts = [ids for _, ids in sample.chunks if not isinstance(ids, int)]
    return array("q", chain.from_iterable(parts)) if parts else sample.tokens


def _engine_time(stats: Any, name: str, began: float) -> float | None:
    stamp = getattr(stats, name, None)
    # vLLM leaves stamps at 0.0 until they are known.
    return stamp - began if stamp else None


def _gaps_ms(chunks: Sequence[tuple[float, Sequence[int] | int]]) -> tuple[float, ...]:
    """Inter-token gaps; a chunk of k tokens, whose inner times nobody saw, is k equal gaps."""
    gaps: list[float] = []
    for (before, _), (at, tokens) in pairwise(_counted(chunks)):
        gaps += [1000.0 * (at - before) / tokens] * tokens
    return tuple(gaps)


def _counted(chunks: Sequence[tuple[float, Sequence[int] | int]]) -> Iterator[tuple[float, int]]:
    """Time and number of new tokens of every chunk that has any."""
    seen = 0
    for at, ids in chunks:
        total = ids if isinstance(ids, int) else seen + len(ids)
        if total > seen:
            yield at, total - seen
        seen = total
