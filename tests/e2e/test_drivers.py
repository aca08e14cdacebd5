"""Drivers on real engines, in this process: what their records say is what the engine did."""

import hashlib
import os
from array import array
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest

from app.errors import InvalidWorkload
from app.measure.records import RequestRecord
from app.spec.experiment import Api, Experiment, OutputKind
from app.spec.plan import PlannedTrial
from app.spec.resolution import resolve
from tests.support.builders import planned
from workers.batches import SeededBatches
from workers.drivers import make_driver
from workers.drivers.base import Driver, Rollout

# What torch and vLLM warn of while they load is theirs.
pytestmark = [pytest.mark.timeout(400), pytest.mark.filterwarnings("ignore")]

PROFILES = {Api.ASYNC_LLM: "vllm-async", Api.LLM: "vllm-sync"}
PROMPT, SAMPLES, TOKENS, BLOCK = 400, 4, 24, 128
CACHED = 3 * BLOCK  # whole blocks of a prompt that a sample finds if another of it came before


def a_spec(api: Api, driver: dict[str, Any] | None = None, **workload: Any) -> Experiment:
    """Two prompts of four samples; each prompt is longer than three blocks of the prefix cache."""
    return Experiment.model_validate(
        {
            "model": {"preset": "tiny-qwen2"},
            "engine": {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 512},
            "workload": {
                "prompts": {"source": "synthetic", "count": 2, "tokens": {"distribution": "fixed", "value": PROMPT}},
                "samples_per_prompt": SAMPLES,
                "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": TOKENS}},
            }
            | workload,
            "arms": [{"name": "sync", "profile": PROFILES[api], "driver": driver or {}}],
        }
    )


class Running:
    """A driver with its engine."""

    def __init__(self, api: Api) -> None:
        (arm,) = resolve(a_spec(api)).arms
        self.api = api
        self._driver: Driver = make_driver(arm, sleep_mode=False, seed=0)
        self._vocab_size = self._driver.start().vocab_size

    def workload(self, spec: Experiment) -> SeededBatches:
        """The requests of a spec."""
        return SeededBatches(spec, resolve(spec), self._vocab_size, self._driver.encode)

    def trial(self, spec: Experiment, trial: PlannedTrial, *, settles: bool = False, resets: bool = True) -> Rollout:
        """A trial, or the pass that settles the engine for it."""
        workload = self.workload(spec)
        if resets:
            assert self._driver.reset_prefix_cache()
        batch = workload.draw_settling(trial) if settles else workload.draw_batch(trial)
        (arm,) = resolve(spec).arms
        return self._driver.rollout(batch, arm.driver, nullcontext())

    def encode(self, *texts: str) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text."""
        return self._driver.encode(texts)

    def stop(self) -> None:
        """End the engine."""
        self._driver.stop()


@pytest.fixture(scope="module", params=PROFILES)
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    engine = Running(request.param)
    yield engine
    engine.stop()


# `LLM` takes a batch at once and gives it back at once.
streaming = pytest.mark.parametrize("running", [Api.ASYNC_LLM], indirect=True)


@pytest.mark.parametrize("samples", ["n_parameter", "separate_requests"])
def test_every_sample_has_its_own_cached_tokens(running: Running, samples: str) -> None:
    records = running.trial(a_spec(running.api, {"samples": samples}), planned(block=0)).records
    assert sum(record.cached_tokens or 0 for record in records) == 2 * (SAMPLES - 1) * CACHED
    for prompt in range(2):
        found = [record.cached_tokens for record in records if record.prompt_index == prompt]
        assert sorted(found, key=str) == [0, *[CACHED] * (SAMPLES - 1)]
    assert {record.prompt_tokens for record in records} == {PROMPT}


@streaming
@pytest.mark.parametrize("kind", [OutputKind.DELTA, OutputKind.CUMULATIVE])
def test_samples_of_one_request_stream_their_own_gaps_and_moments(running: Running, kind: OutputKind) -> None:
    spec = a_spec(running.api, {"samples": "n_parameter", "output_kind": kind})
    records = running.trial(spec, planned(block=1)).records
    plain = running.trial(a_spec(running.api), planned(block=1)).records
    assert [r.output_sha256 for r in records] == [r.output_sha256 for r in plain]
    assert {len(record.itl_ms or ()) for record in records} == {TOKENS - 1}
    for record in records:
        assert record.first_token_s is not None
        assert record.last_token_s is not None
        span_ms = 1000.0 * (record.last_token_s - record.first_token_s)
        assert sum(record.itl_ms or ()) == pytest.approx(span_ms)
        assert record.last_token_s <= record.delivered_s
    # The first samples are done a step or more before the last, and are delivered then.
    assert len({record.delivered_s for record in records}) > 1


def test_a_trial_finds_nothing_of_the_settling_pass_in_the_cache(running: Running) -> None:
    one_each = a_spec(running.api, samples_per_prompt=1)
    running.trial(one_each, planned(block=2), settles=True)
    records = running.trial(one_each, planned(block=2), resets=False).records
    assert [record.cached_tokens for record in records] == [0, 0]
    again = running.trial(one_each, planned(block=2), resets=False).records
    assert [record.cached_tokens for record in again] == [CACHED, CACHED]


def test_given_prompts_are_not_settled_with_either(running: Running) -> None:
    given = {"source": "inline", "prompts": [[1000 + n for n in range(PROMPT)], [3000 + n for n in range(PROMPT)]]}
    spec = a_spec(running.api, prompts=given, samples_per_prompt=1)
    running.trial(spec, planned(block=3), settles=True)
    records = running.trial(spec, planned(block=3), resets=False).records
    assert [record.cached_tokens for record in records] == [0, 0]


def test_calls_of_a_size_wait_for_each_other(running: Running) -> None:
    spec = a_spec(running.api, arrival={"pattern": "batch", "size": 3})
    records = running.trial(spec, planned(block=6)).records
    calls = [records[first : first + 3] for first in range(0, len(records), 3)]
    assert [len(call) for call in calls] == [3, 3, 2]
    assert {record.arrived_s for record in calls[0]} == {0.0}
    for before, after in pairwise(calls):
        (began_s,) = {record.arrived_s for record in after}
        assert 0 <= began_s - max(record.delivered_s for record in before) < 0.05
        assert min(record.sent_s for record in after) >= began_s
    plain = running.trial(a_spec(running.api), planned(block=6)).records
    assert [record.output_sha256 for record in records] == [record.output_sha256 for record in plain]


@streaming
def test_a_request_that_comes_while_every_slot_is_taken_should_have_started_when_it_came(running: Running) -> None:
    spec = a_spec(running.api, arrival={"pattern": "constant", "rate": 1000, "limit": 2})
    records = running.trial(spec, planned(block=7)).records
    assert [record.arrived_s for record in records] == [number / 1000 for number in range(len(records))]
    for record in records:
        in_flight = [other for other in records if other.sent_s < record.sent_s < other.delivered_s]
        assert len(in_flight) < 2
    assert records[-1].sent_s - records[-1].arrived_s > 2 * (records[0].delivered_s - records[0].sent_s)


@streaming
def test_a_request_that_waits_for_a_slot_should_start_when_the_slot_is_free(running: Running) -> None:
    limit = 3
    spec = a_spec(running.api, arrival={"pattern": "concurrency", "limit": limit})
    records = sorted(running.trial(spec, planned(block=4)).records, key=lambda record: record.arrived_s)
    assert [record.arrived_s for record in records[:limit]] == [0.0] * limit
    left = sorted(record.delivered_s for record in records)
    for record, freed_s in zip(records[limit:], left, strict=False):
        assert freed_s <= record.arrived_s <= record.sent_s
        assert record.arrived_s - freed_s < 0.05
    # Few outputs, and yet what handling them cost is known.
    assert running.trial(spec, planned(block=4)).harness.cpu_s > 0


# --- sampling ------------------------------------------------------------------------------------------------------

EOS = 2
NATURAL = {"stop": "natural", "max_tokens": 64}


def sha256(*tokens: int) -> str:
    return hashlib.sha256(array("q", tokens).tobytes()).hexdigest()


def sampled(running: Running, driver: dict[str, Any] | None = None, **workload: Any) -> tuple[RequestRecord, ...]:
    return running.trial(a_spec(running.api, driver, **workload), planned(block=5)).records


def test_allowed_tokens_are_the_only_ones(running: Running) -> None:
    records = sampled(running, sampling={"allowed_token_ids": [300]})
    assert {record.output_sha256 for record in records} == {sha256(*[300] * TOKENS)}


def test_a_bias_decides_what_is_likeliest(running: Running) -> None:
    records = sampled(running, sampling={"logit_bias": {"301": 100}})
    assert {record.output_sha256 for record in records} == {sha256(*[301] * TOKENS)}


def test_the_highest_min_p_leaves_one_token_whatever_the_seed(running: Running) -> None:
    records = sampled(running, sampling={"min_p": 1.0})
    assert len({record.output_sha256 for record in records}) == 2  # one per prompt
    assert len({record.output_sha256 for record in sampled(running)}) == len(records)


def test_a_share_of_the_samples_is_one_of_the_choices_and_the_rest_is_not(running: Running) -> None:
    choices = {sha256(token, EOS) for (token,) in running.encode("a", "b")}
    share = {"share_pct": 50, "sampling": {"structured_outputs": {"choice": ["a", "b"]}}}
    records = sampled(running, output=NATURAL, sampling_shares=[share])
    chosen = [record for record in records if record.finish_reason == "stop"]
    assert {record.output_sha256 for record in chosen} <= choices
    assert len(chosen) == len(records) // 2
    assert {record.output_tokens for record in records if record not in chosen} == {NATURAL["max_tokens"]}


def test_a_text_ends_a_sample(running: Running) -> None:
    long = {"stop": "natural", "max_tokens": 100}
    plain = sampled(running, output=long)
    ended = sampled(running, {"detokenize": True}, output=long, sampling={"stop": list("aeiou")})
    assert {record.finish_reason for record in ended} == {"stop"}
    assert sum(r.output_tokens for r in ended) < sum(r.output_tokens for r in plain)


def test_what_vllm_refuses_ends_a_trial_and_not_the_engine(running: Running) -> None:
    with pytest.raises(InvalidWorkload, match="temperature must be in"):
        sampled(running, sampling={"temperature": 5.0})
    with pytest.raises(InvalidWorkload, match="vLLM refuses a request"):
        sampled(running, output=NATURAL, sampling={"structured_outputs": {"regex": "("}})
    assert len(sampled(running)) == 2 * SAMPLES
