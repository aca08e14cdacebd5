"""What the vLLM drivers share: requests out, records in. On vLLM's own types, without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm.sampling_params import RequestOutputKind

from app.spec.experiment import AsyncLlmDriver, LlmDriver, Samples
from workers.drivers import requests
from workers.drivers.base import Batch, Request, Sampling


def a_request(prompt: int = 0, sample: int = 0, tokens: int = 4) -> Request:
    return Request(f"{prompt}-{sample}", prompt, sample, (7, 8, 9), tokens, tokens, 100 + sample, 0.0)


def a_batch(*requests_: Request) -> Batch:
    return Batch(0, requests_, Sampling(1.0, 1.0, 0, True), None)


def an_output(*completions: tuple[int, list[int], str | None], **changes: Any) -> Any:
    """What an engine delivers: (index, token ids, finish reason) per completion."""
    fields: dict[str, Any] = {"num_cached_tokens": 0, "metrics": SimpleNamespace(first_token_ts=2.0)}
    return SimpleNamespace(
        outputs=[SimpleNamespace(index=i, token_ids=ids, finish_reason=why) for i, ids, why in completions],
        **(fields | changes),
    )


def calls_of(kind: RequestOutputKind, samples: Samples = Samples.SEPARATE_REQUESTS) -> list[requests.Call]:
    batch = a_batch(a_request(0, 0), a_request(0, 1), a_request(1, 0))
    return requests.make_calls(batch, AsyncLlmDriver(samples=samples), kind)


def test_every_request_has_sampling_parameters_of_its_own() -> None:
    # LLM writes FINAL_ONLY into the parameters it is given.
    calls = calls_of(RequestOutputKind.FINAL_ONLY)
    assert len({id(call.params) for call in calls}) == len(calls) == 3


def test_lengths_and_seeds_are_passed_on() -> None:
    (call,) = requests.make_calls(a_batch(a_request(tokens=5)), LlmDriver(logprobs=0), RequestOutputKind.FINAL_ONLY)
    params = call.params
    assert (params.min_tokens, params.max_tokens, params.seed, params.ignore_eos) == (5, 5, 100, True)
    assert (params.detokenize, params.logprobs, params.n) == (False, 0, 1)


def test_samples_of_a_prompt_can_share_one_request() -> None:
    calls = calls_of(RequestOutputKind.FINAL_ONLY, Samples.N_PARAMETER)
    assert [(call.params.n, call.params.seed) for call in calls] == [(2, 100), (1, 100)]


CHUNKS = pytest.mark.parametrize(
    ("kind", "chunks"),
    [
        (RequestOutputKind.DELTA, [[1], [2, 3], [], [4]]),
        (RequestOutputKind.CUMULATIVE, [[1], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4]]),
    ],
)


def streamed(chunks: list[list[int]]) -> list[Any]:
    """One output per chunk, ten milliseconds apart."""
    return [
        an_output(
            (0, ids, "length" if number == len(chunks) - 1 else None),
            metrics=SimpleNamespace(last_token_ts=1.0 + 0.010 * number),
        )
        for number, ids in enumerate(chunks)
    ]


@CHUNKS
def test_streamed_chunks_add_up_to_the_same_tokens(kind: RequestOutputKind, chunks: list[list[int]]) -> None:
    call = calls_of(kind)[0]
    for output in streamed(chunks):
        requests.take(call, output)
    assert list(call.samples[0].tokens) == [1, 2, 3, 4]
    assert call.samples[0].finish_reason == "length"


@CHUNKS
def test_chunks_that_were_kept_say_the_same_and_when(kind: RequestOutputKind, chunks: list[list[int]]) -> None:
    call, plain = calls_of(kind)[0], calls_of(RequestOutputKind.FINAL_ONLY)[0]
    for output in streamed(chunks):
        requests.keep_chunk(call, output)
    requests.take(call, output)
    requests.take(plain, streamed([[1, 2, 3, 4]])[0])
    call.samples[0].delivered = plain.samples[0].delivered = 2.0
    (record,), (expected,) = requests.records([call], began=0.0), requests.records([plain], began=0.0)
    assert record.output_sha256 == expected.output_sha256
    assert record.output_tokens == 4
    assert record.itl_ms == pytest.approx((5.0, 5.0, 20.0))


def test_a_list_that_vllm_goes_on_filling_is_read_at_once() -> None:
    call = calls_of(RequestOutputKind.CUMULATIVE)[0]
    growing = [1]
    requests.keep_chunk(call, an_output((0, growing, None), metrics=SimpleNamespace(last_token_ts=1.0)))
    growing.append(2)
    requests.keep_chunk(call, an_output((0, growing, None), metrics=SimpleNamespace(last_token_ts=1.5)))
    call.samples[0].delivered = 2.0
    (record,) = requests.records([call], began=0.0)
    assert record.itl_ms == (500.0,)


def test_a_sample_missing_from_the_last_chunk_keeps_what_it_had() -> None:
    call = calls_of(RequestOutputKind.CUMULATIVE, Samples.N_PARAMETER)[0]
    requests.take(call, an_output((0, [5], "length"), (1, [6], None)))
    requests.take(call, an_output((1, [6, 7], "length")))
    assert [list(sample.tokens) for sample in call.samples] == [[5], [6, 7]]


def test_children_of_one_request_keep_their_own_times() -> None:
    calls = calls_of(RequestOutputKind.FINAL_ONLY, Samples.N_PARAMETER)
    states: dict[str, Any] = {}

    def register(request: Any, *_: Any) -> None:
        states[request.request_id] = SimpleNamespace(stats=request.request_id)

    processor = SimpleNamespace(request_states=states, add_request=register)
    with requests.each_child_keeps_its_stats(processor, calls):
        for index in range(2):
            child = SimpleNamespace(request_id=f"{index}_0-0-x", external_req_id="0-0")
            processor.add_request(child, None, None, index)
    assert [sample.stats for sample in calls[0].samples] == ["0_0-0-x", "1_0-0-x"]


def test_times_are_relative_to_the_trial_and_unknown_ones_are_none() -> None:
    (call,) = requests.make_calls(a_batch(a_request()), LlmDriver(), RequestOutputKind.FINAL_ONLY)
    stats = SimpleNamespace(queued_ts=11.0, scheduled_ts=11.5, first_token_ts=12.0, last_token_ts=0.0)
    requests.take(call, an_output((0, [1, 2, 3, 4], "length"), metrics=stats, num_cached_tokens=2))
    call.sent, call.samples[0].delivered = 10.5, 13.0
    (record,) = requests.records([call], began=10.0)
    assert (record.sent_s, record.queued_s, record.scheduled_s, record.first_token_s) == (0.5, 1.0, 1.5, 2.0)
    assert (record.last_token_s, record.delivered_s, record.preemptions) == (None, 3.0, None)
    assert (record.output_tokens, record.cached_tokens, record.itl_ms) == (4, 2, None)


def test_a_chunk_of_several_tokens_is_as_many_equal_gaps() -> None:
    (call,) = requests.make_calls(a_batch(a_request()), AsyncLlmDriver(), RequestOutputKind.DELTA)
    call.samples[0].chunks += [(1.0, [1]), (1.010, [2]), (1.040, [3, 4, 5])]
    call.samples[0].delivered = 2.0
    (record,) = requests.records([call], began=0.0)
    assert record.itl_ms == pytest.approx((10.0, 10.0, 10.0, 10.0))


def test_a_sample_that_was_never_delivered_leaves_no_record() -> None:
    assert requests.records(calls_of(RequestOutputKind.FINAL_ONLY), began=0.0) == ()
