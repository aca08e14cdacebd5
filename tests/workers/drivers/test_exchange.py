"""What the vLLM drivers share: requests out, records in. On vLLM's own types, without an engine."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import JsonValue
from vllm.sampling_params import RequestOutputKind, SamplingParams

from app.errors import InvalidWorkload
from app.spec.experiment import AsyncLlmDriver, LlmDriver, Samples
from app.spec.sampling import Sampling
from workers.drivers import exchange
from workers.drivers.base import Batch, Request, RequestSampling


def a_request(
    prompt: int = 0, sample: int = 0, tokens: int = 4, sampling: Mapping[str, JsonValue] | None = None
) -> Request:
    shared = RequestSampling({"ignore_eos": True} | dict(sampling or {}), seeded=True)
    return Request(f"{prompt}-{sample}", prompt, sample, (7, 8, 9), tokens, tokens, 100 + sample, 0.0, shared)


def a_batch(*requests_: Request) -> Batch:
    return Batch(0, requests_, None)


def an_output(*completions: tuple[int, list[int], str | None], **changes: Any) -> Any:
    """What an engine delivers: (index, token ids, finish reason) per completion."""
    fields: dict[str, Any] = {
        "num_cached_tokens": 0,
        "prompt_token_ids": [7, 8, 9],
        "metrics": SimpleNamespace(first_token_ts=2.0, last_token_ts=3.0),
    }
    return SimpleNamespace(
        outputs=[SimpleNamespace(index=i, token_ids=ids, finish_reason=why) for i, ids, why in completions],
        **(fields | changes),
    )


def calls_of(kind: RequestOutputKind, samples: Samples = Samples.SEPARATE_REQUESTS) -> list[exchange.Call]:
    batch = a_batch(a_request(0, 0), a_request(0, 1), a_request(1, 0))
    return exchange.make_calls(batch, AsyncLlmDriver(samples=samples), kind)


def test_every_request_has_sampling_parameters_of_its_own() -> None:
    # LLM writes FINAL_ONLY into the parameters it is given.
    calls = calls_of(RequestOutputKind.FINAL_ONLY)
    assert len({id(call.params) for call in calls}) == len(calls) == 3


def test_lengths_and_seeds_are_passed_on() -> None:
    (call,) = exchange.make_calls(a_batch(a_request(tokens=5)), LlmDriver(logprobs=0), RequestOutputKind.FINAL_ONLY)
    params = call.params
    assert (params.min_tokens, params.max_tokens, params.seed, params.ignore_eos) == (5, 5, 100, True)
    assert (params.detokenize, params.logprobs, params.n) == (False, 0, 1)


def test_samples_of_a_prompt_can_share_one_request() -> None:
    calls = calls_of(RequestOutputKind.FINAL_ONLY, Samples.N_PARAMETER)
    assert [(call.params.n, call.params.seed) for call in calls] == [(2, 100), (1, 100)]


def asked_for(sampling: Sampling) -> SamplingParams:
    (call,) = exchange.make_calls(
        a_batch(a_request(sampling=sampling.list_parameters())),
        LlmDriver(detokenize=True),
        RequestOutputKind.FINAL_ONLY,
    )
    return call.params


EXAMPLES = [
    (name, example)
    for name, field in Sampling.model_fields.items()
    for example in field.examples or ()
    if name != "per_request_seed"
]


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_vllm_is_asked_for_what_sampling_says(name: str, example: Any) -> None:
    found = getattr(asked_for(Sampling.model_validate({name: example})), name)
    match name:
        case "logit_bias":
            assert found == {int(token): bias for token, bias in example.items()}
        case "structured_outputs" | "repetition_detection":
            assert {key: getattr(found, key) for key in example} == example
        case _:
            assert found == example


def test_vllm_has_its_defaults_where_sampling_says_nothing() -> None:
    plain = SamplingParams()
    asked = asked_for(Sampling())
    same = [name for name in Sampling.model_fields if name != "per_request_seed"]
    assert {name: getattr(asked, name) for name in same} == {name: getattr(plain, name) for name in same}


@pytest.mark.parametrize("name", ["structured_outputs", "repetition_detection"])
def test_no_two_requests_share_what_vllm_writes_into(name: str) -> None:
    example = dict(EXAMPLES)[name]
    batch = a_batch(*(a_request(prompt, sampling={name: example}) for prompt in range(2)))
    one, other = exchange.make_calls(batch, LlmDriver(), RequestOutputKind.FINAL_ONLY)
    assert getattr(one.params, name) is not getattr(other.params, name)


def test_a_parameter_that_this_vllm_does_not_have_is_named() -> None:
    with pytest.raises(InvalidWorkload, match=r"vLLM 0\.\d+\.\d+\S* has no sampling parameter newest"):
        exchange.make_calls(a_batch(a_request(sampling={"newest": 1})), LlmDriver(), RequestOutputKind.FINAL_ONLY)


def test_what_vllm_refuses_is_the_workload_s_fault() -> None:
    with pytest.raises(InvalidWorkload, match="temperature"), exchange.explain_refusals():
        asked_for(Sampling(temperature=5))


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
def test_streamed_chunks_say_the_same_as_one_output_and_when(kind: RequestOutputKind, chunks: list[list[int]]) -> None:
    call, plain = calls_of(kind)[0], calls_of(RequestOutputKind.FINAL_ONLY)[0]
    for number, output in enumerate(streamed(chunks)):
        exchange.take(call, output, now=float(number))
    exchange.take(plain, streamed([[1, 2, 3, 4]])[0], now=2.0)
    (record,), (expected,) = exchange.make_records([call], began=0.0), exchange.make_records([plain], began=0.0)
    assert record.output_sha256 == expected.output_sha256
    assert (record.output_tokens, record.finish_reason, record.delivered_s) == (4, "length", 3.0)
    assert record.itl_ms == pytest.approx((5.0, 5.0, 20.0))
    assert expected.itl_ms is None


def test_a_list_that_vllm_goes_on_filling_is_read_at_once() -> None:
    call = calls_of(RequestOutputKind.CUMULATIVE)[0]
    growing = [1]
    exchange.take(call, an_output((0, growing, None), metrics=SimpleNamespace(last_token_ts=1.0)), now=1.0)
    growing.append(2)
    exchange.take(call, an_output((0, growing, "length"), metrics=SimpleNamespace(last_token_ts=1.5)), now=2.0)
    (record,) = exchange.make_records([call], began=0.0)
    assert record.itl_ms == (500.0,)


def with_children(call: exchange.Call) -> list[Any]:
    """The call's samples, as vLLM's children of one request: each with a state of its own."""
    for sample in call.samples:
        sample.child = SimpleNamespace(stats=SimpleNamespace(last_token_ts=0.0), num_cached_tokens=0)
    return [sample.child for sample in call.samples]


def test_a_sample_of_several_is_delivered_when_it_is_complete_and_not_with_the_last() -> None:
    call = calls_of(RequestOutputKind.CUMULATIVE, Samples.N_PARAMETER)[0]
    with_children(call)
    exchange.take(call, an_output((0, [5], "length"), (1, [6], None)), now=1.0)
    exchange.take(call, an_output((1, [6, 7], "length")), now=2.0)
    records = exchange.make_records([call], began=0.0)
    assert [(record.output_tokens, record.delivered_s) for record in records] == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize("kind", [RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE])
def test_every_sample_of_several_has_its_own_gaps(kind: RequestOutputKind) -> None:
    call = calls_of(kind, Samples.N_PARAMETER)[0]
    first, second = with_children(call)
    for now, step in enumerate(([1.0, 1.5], [1.010, 1.530], [1.030, 1.540])):
        first.stats.last_token_ts, second.stats.last_token_ts = step
        ids = [now] if kind is RequestOutputKind.DELTA else list(range(now + 1))
        why = "length" if now == 2 else None
        # Whose metrics the output has is chance.
        exchange.take(call, an_output((0, ids, why), (1, ids, why), metrics=second.stats), now=float(now))
    records = exchange.make_records([call], began=0.0)
    assert records[0].itl_ms == pytest.approx((10.0, 20.0))
    assert records[1].itl_ms == pytest.approx((30.0, 10.0))
    assert {record.output_tokens for record in records} == {3}


def test_children_of_one_request_keep_their_own_times_and_cached_tokens() -> None:
    calls = calls_of(RequestOutputKind.FINAL_ONLY, Samples.N_PARAMETER)
    states: dict[str, Any] = {}

    def register(request: Any, *_: Any) -> None:
        cached = len(states)
        stats = SimpleNamespace(first_token_ts=1.0 + cached)
        states[request.request_id] = SimpleNamespace(stats=stats, num_cached_tokens=cached)

    processor = SimpleNamespace(request_states=states, add_request=register)
    with exchange.keep_child_states(processor, calls):
        for index in range(2):
            child = SimpleNamespace(request_id=f"{index}_0-0-x", external_req_id="0-0")
            processor.add_request(child, None, None, index)
        processor.add_request(SimpleNamespace(request_id="1-0-x", external_req_id="1-0"), None, None, 0)
    exchange.take(calls[0], an_output((0, [5], "length"), (1, [6], "length"), num_cached_tokens=1), now=3.0)
    records = exchange.make_records(calls, began=0.0)
    assert [(record.first_token_s, record.cached_tokens) for record in records] == [(1.0, 0), (2.0, 1)]


def test_prompt_tokens_are_those_the_engine_ran() -> None:
    (call,) = exchange.make_calls(a_batch(a_request()), LlmDriver(), RequestOutputKind.FINAL_ONLY)
    exchange.take(call, an_output((0, [1], "length"), prompt_token_ids=[0, 7, 8, 9]), now=1.0)
    (record,) = exchange.make_records([call], began=0.0)
    assert (len(call.samples[0].request.prompt_token_ids), record.prompt_tokens) == (3, 4)


def test_times_are_relative_to_the_trial_and_unknown_ones_are_none() -> None:
    (call,) = exchange.make_calls(a_batch(a_request()), LlmDriver(), RequestOutputKind.FINAL_ONLY)
    stats = SimpleNamespace(queued_ts=11.0, scheduled_ts=11.5, first_token_ts=12.0, last_token_ts=0.0)
    call.sent = 10.5
    exchange.take(call, an_output((0, [1, 2, 3, 4], "length"), metrics=stats, num_cached_tokens=2), now=13.0)
    (record,) = exchange.make_records([call], began=10.0)
    assert (record.sent_s, record.queued_s, record.scheduled_s, record.first_token_s) == (0.5, 1.0, 1.5, 2.0)
    assert (record.last_token_s, record.delivered_s, record.preemptions) == (None, 3.0, None)
    assert (record.output_tokens, record.cached_tokens, record.itl_ms) == (4, 2, None)


def test_a_request_arrives_when_planned_or_when_the_trial_says() -> None:
    calls = calls_of(RequestOutputKind.FINAL_ONLY)
    calls[1].arrived = 12.5
    for call in calls:
        exchange.take(call, an_output((0, [1], "length")), now=13.0)
    assert [record.arrived_s for record in exchange.make_records(calls, began=10.0)] == [0.0, 2.5, 0.0]


def test_a_chunk_of_several_tokens_is_as_many_equal_gaps() -> None:
    (call,) = exchange.make_calls(a_batch(a_request()), AsyncLlmDriver(), RequestOutputKind.DELTA)
    for at, ids in ((1.0, [1]), (1.010, [2]), (1.040, [3, 4, 5])):
        why = "length" if len(ids) == 3 else None
        exchange.take(call, an_output((0, ids, why), metrics=SimpleNamespace(last_token_ts=at)), now=2.0)
    (record,) = exchange.make_records([call], began=0.0)
    assert record.itl_ms == pytest.approx((10.0, 10.0, 10.0, 10.0))


def test_a_sample_that_was_never_delivered_leaves_no_record() -> None:
    assert exchange.make_records(calls_of(RequestOutputKind.FINAL_ONLY), began=0.0) == ()
