"""From a workload to requests."""

import dataclasses
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Cancelled, InvalidWorkload
from app.spec.experiment import Experiment
from app.spec.plan import Phase, PlannedTrial
from app.spec.resolution import longest, resolve
from app.spec.workload import Empirical, LogNormal, TokenDistribution, Uniform
from tests.support.builders import a_simulated_spec, a_spec, planned
from workers.batches import SeededBatches, draw
from workers.drivers.base import Batch, RequestSampling
from workers.watch import Watch


def bytes_as_tokens(texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(text.encode()) for text in texts)


def batch_of(spec: Experiment, trial: PlannedTrial | None = None) -> Batch:
    return SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens).draw_batch(trial or planned(spec.arms[0].name))


def with_workload(**workload: Any) -> Experiment:
    return a_spec(workload=workload)


def test_there_is_one_request_per_sample_ordered_by_prompt() -> None:
    batch = batch_of(with_workload(prompts={"source": "synthetic", "count": 2}, samples_per_prompt=3))
    assert [(r.prompt_index, r.sample_index) for r in batch.requests] == [(p, s) for p in range(2) for s in range(3)]
    assert len({r.request_id for r in batch.requests}) == 6


def test_samples_of_a_prompt_share_its_tokens_and_differ_in_seed() -> None:
    first, second, *_ = batch_of(a_spec()).requests
    assert first.prompt_token_ids == second.prompt_token_ids
    # vLLM numbers the samples of one request so; both ways of asking must generate the same.
    assert second.seed is not None
    assert first.seed is not None
    assert second.seed == first.seed + 1


def test_the_arms_of_a_block_get_the_same_batch_but_for_the_slot() -> None:
    one, two = batch_of(a_spec(), planned("sync", slot=0)), batch_of(a_spec(), planned("async", slot=1, position=1))
    assert one.requests == two.requests


def test_no_prompt_comes_back_in_another_block_or_in_a_warm_up() -> None:
    trials = [planned(block=0), planned(block=1), planned(phase=Phase.WARMUP)]
    prompts = [{r.prompt_token_ids for r in batch_of(a_spec(), trial).requests} for trial in trials]
    assert not prompts[0] & prompts[1]
    assert not prompts[0] & prompts[2]


def test_another_seed_draws_other_prompts() -> None:
    one, two = batch_of(a_spec(plan={"seed": 1})), batch_of(a_spec(plan={"seed": 2}))
    assert one.requests[0].prompt_token_ids != two.requests[0].prompt_token_ids


GIVEN = {"source": "inline", "prompts": ["tell me a story", "tell me another", [300, 301, 302]]}


@pytest.mark.parametrize("prompts", [{"source": "synthetic", "count": 4}, GIVEN])
def test_the_settling_pass_has_the_trial_s_shape_and_none_of_its_prefixes(prompts: dict[str, Any]) -> None:
    arrival = {"pattern": "poisson", "rate": 5.0}
    spec = a_simulated_spec(workload={"prompts": prompts, "samples_per_prompt": 2, "arrival": arrival})
    workload = SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens)
    trial, settling = workload.draw_batch(planned()), workload.draw_settling(planned("async", position=1))
    assert [len(r.prompt_token_ids) for r in settling.requests] == [len(r.prompt_token_ids) for r in trial.requests]
    assert not {r.prompt_token_ids[0] for r in settling.requests} & {r.prompt_token_ids[0] for r in trial.requests}
    assert settling.requests[0].prompt_token_ids == settling.requests[1].prompt_token_ids
    assert {(r.max_tokens, r.arrival_s) for r in settling.requests} == {(16, 0.0)}


def test_every_arm_of_a_block_settles_with_the_same_prompts_and_every_block_with_others() -> None:
    workload = SeededBatches(a_spec(), resolve(a_spec()), 8192, bytes_as_tokens)
    first = workload.draw_settling(planned(block=0)).requests
    assert workload.draw_settling(planned("async", block=0, position=1)).requests == first
    assert workload.draw_settling(planned(block=1)).requests != first


def test_forced_lengths_are_exact() -> None:
    spec = with_workload(output={"stop": "length", "tokens": {"distribution": "uniform", "low": 3, "high": 9}})
    batch = batch_of(spec)
    assert batch.requests[0].sampling.parameters["ignore_eos"]
    assert all(r.min_tokens == r.max_tokens and 3 <= r.max_tokens <= 9 for r in batch.requests)
    assert len({r.max_tokens for r in batch.requests}) > 1


def test_natural_stops_only_have_a_limit() -> None:
    batch = batch_of(with_workload(output={"stop": "natural", "max_tokens": 50}))
    assert not batch.requests[0].sampling.parameters["ignore_eos"]
    assert {(r.min_tokens, r.max_tokens) for r in batch.requests} == {(0, 50)}


def test_samples_asked_for_with_n_share_one_length() -> None:
    spec = a_spec(
        workload={"output": {"stop": "length", "tokens": {"distribution": "uniform", "low": 1, "high": 90}}},
        arms=[
            {"name": "separate", "profile": "vllm-sync"},
            {"name": "n", "profile": "vllm-sync", "driver": {"samples": "n_parameter"}},
        ],
    )
    lengths: dict[int, set[int]] = {}
    for request in batch_of(spec).requests:
        lengths.setdefault(request.prompt_index, set()).add(request.max_tokens)
    assert all(len(of_prompt) == 1 for of_prompt in lengths.values())
    assert len(set.union(*lengths.values())) > 1


def test_unseeded_samples_have_no_seed() -> None:
    batch = batch_of(with_workload(sampling={"per_request_seed": False}))
    assert {r.seed for r in batch.requests} == {None}


def test_poisson_arrivals_rise_from_zero_at_about_their_rate() -> None:
    spec = a_spec(
        workload={"prompts": {"source": "synthetic", "count": 500}, "arrival": {"pattern": "poisson", "rate": 20.0}},
        arms=[{"name": "async", "profile": "vllm-async"}],
    )
    arrivals = [r.arrival_s for r in batch_of(spec).requests if r.arrival_s is not None]
    assert len(arrivals) == 2000
    assert arrivals == sorted(arrivals)
    assert len(arrivals) / arrivals[-1] == pytest.approx(20.0, rel=0.15)


def arriving(**arrival: Any) -> Batch:
    return batch_of(a_spec(workload={"arrival": arrival}, arms=[{"name": "async", "profile": "vllm-async"}]))


def test_constant_arrivals_are_all_the_same_time_apart() -> None:
    batch = arriving(pattern="constant", rate=8, limit=2)
    assert [r.arrival_s for r in batch.requests] == [number / 8 for number in range(len(batch.requests))]
    assert (batch.concurrency, batch.call_size) == (2, None)


def test_a_rate_may_have_a_limit_and_calls_a_size() -> None:
    assert (arriving(rate=4, limit=64).concurrency, arriving(size=16).call_size) == (64, 16)
    assert {r.arrival_s for r in arriving(limit=3).requests} == {None}
    assert {r.arrival_s for r in arriving(size=3).requests} == {0.0}


def test_arms_that_differ_in_arrival_get_the_same_requests() -> None:
    arms = [{"name": "all", "profile": "vllm-async"}, {"name": "rate", "profile": "vllm-async", "arrival": {"rate": 4}}]
    spec = a_spec(arms=arms)
    at_once, rated = (batch_of(spec, planned(arm)).requests for arm in ("all", "rate"))
    assert {request.arrival_s for request in at_once} == {0.0}
    assert len({request.arrival_s for request in rated}) == len(rated)
    assert [dataclasses.replace(request, arrival_s=0.0) for request in rated] == list(at_once)


def test_text_and_token_ids_may_be_mixed() -> None:
    batch = batch_of(with_workload(prompts={"source": "inline", "prompts": ["ab", [7, 8, 9]]}, samples_per_prompt=1))
    assert [r.prompt_token_ids for r in batch.requests] == [(97, 98), (7, 8, 9)]


def test_prompts_of_a_file_are_encoded_like_any_other() -> None:
    spec = with_workload(prompts={"source": "file", "path": "prompts.jsonl"}, samples_per_prompt=1)
    workload = SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens, from_file=("ab", (7, 8, 9)))
    assert [r.prompt_token_ids for r in workload.draw_batch(planned()).requests] == [(97, 98), (7, 8, 9)]
    other = SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens, from_file=("ab", (7, 8)))
    assert workload.sha256 != other.sha256


def test_a_prompt_that_does_not_fit_is_refused_before_the_engine_sees_it() -> None:
    spec = a_spec(engine={"max_model_len": 200}, workload={"prompts": {"source": "inline", "prompts": ["x" * 100]}})
    with pytest.raises(InvalidWorkload, match="exceeds max_model_len"):
        batch_of(spec)


@pytest.mark.parametrize(("tokens", "complaint"), [((), "no token"), ((1, 8192), "token id 8192")])
def test_a_prompt_outside_the_vocabulary_is_refused_before_the_engine_sees_it(
    tokens: tuple[int, ...], complaint: str
) -> None:
    spec = with_workload(prompts={"source": "inline", "prompts": ["fine", "x"]})
    with pytest.raises(InvalidWorkload, match=f"prompt 2: .*{complaint}"):
        SeededBatches(spec, resolve(spec), 8192, lambda _: ((5,), tokens))


def test_a_cancel_ends_the_drawing_of_a_large_batch() -> None:
    spec = with_workload(prompts={"count": 100_000})
    watch = Watch(spec.limits)
    workload = SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens, check=watch.check)
    watch.cancelled.set()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        workload.draw_batch(planned())
    assert time.monotonic() - began < 1.0


distributions = st.one_of(
    st.builds(Uniform, low=st.integers(1, 50), high=st.integers(50, 90)),
    st.builds(LogNormal, median=st.integers(1, 50), sigma=st.floats(0.1, 3.0), max=st.integers(50, 90)),
    st.builds(Empirical, values=st.lists(st.integers(1, 90), min_size=1).map(tuple)),
)


@given(distributions, st.integers())
def test_a_drawn_length_is_at_least_one_and_at_most_the_longest(distribution: TokenDistribution, seed: int) -> None:
    assert 1 <= draw(distribution, random.Random(seed)) <= longest(distribution)


# --- sampling ------------------------------------------------------------------------------------------------------

PLAIN = RequestSampling({}, seeded=True)
SHARED = {"sampling_shares": [{"share_pct": 25, "sampling": {"min_p": 0.1, "per_request_seed": False}}]}


def min_ps(batch: Batch) -> list[object]:
    return [request.sampling.parameters.get("min_p") for request in batch.requests]


def test_a_share_of_the_samples_has_sampling_of_its_own() -> None:
    batch = batch_of(with_workload(**SHARED))
    assert min_ps(batch).count(0.1) == len(batch.requests) // 4
    assert {request.seed is None for request in batch.requests if "min_p" in request.sampling.parameters} == {True}
    assert {request.seed is None for request in batch.requests if "min_p" not in request.sampling.parameters} == {False}


def test_every_arm_of_a_block_has_the_same_samples_in_a_share_and_blocks_differ() -> None:
    spec = with_workload(**SHARED)
    first = min_ps(batch_of(spec, planned(block=0)))
    assert min_ps(batch_of(spec, planned("async", block=0, position=1))) == first
    assert min_ps(batch_of(spec, planned(block=1))) != first


def test_shares_change_nothing_else_of_the_requests() -> None:
    plain = [dataclasses.replace(request, sampling=PLAIN) for request in batch_of(with_workload()).requests]
    share = {"share_pct": 25, "sampling": {"min_p": 0.1}}
    shared = batch_of(with_workload(sampling_shares=[share]))
    assert [dataclasses.replace(request, sampling=PLAIN) for request in shared.requests] == plain


def test_samples_that_are_asked_for_with_n_are_in_one_share() -> None:
    arms = [{"name": "sync", "profile": "vllm-sync", "driver": {"samples": "n_parameter"}}]
    found = min_ps(batch_of(a_spec(workload=SHARED, arms=arms)))
    assert found.count(0.1) == len(found) // 4
    assert all(len(set(found[start : start + 4])) == 1 for start in range(0, len(found), 4))


@pytest.mark.parametrize(
    ("name", "value"), [("stop_token_ids", [8192]), ("allowed_token_ids", [1, 8192]), ("logit_bias", {"8192": 1})]
)
def test_tokens_that_the_model_does_not_have_are_refused(name: str, value: object) -> None:
    spec = with_workload(sampling={name: value}, output={"stop": "natural", "max_tokens": 50})
    with pytest.raises(InvalidWorkload, match=rf"workload.sampling.{name}: 8192 is none of the model's 8192 tokens"):
        batch_of(spec)


def test_a_share_of_a_file_s_prompts_that_is_none_of_them_is_refused() -> None:
    prompts = {"source": "file", "path": "a.jsonl"}
    share = {"share_pct": 1, "sampling": {"min_p": 0.1}}
    spec = with_workload(prompts=prompts, samples_per_prompt=1, sampling_shares=[share])
    batches = SeededBatches(spec, resolve(spec), 8192, bytes_as_tokens, from_file=["one", "two"])
    with pytest.raises(InvalidWorkload, match="1 % of 2"):
        batches.draw_batch(planned())
