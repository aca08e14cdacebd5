"""From a workload and a seed to concrete requests: pure.

Within a block every arm gets the same requests; across blocks they differ, so that neither the prefix cache nor luck
carries over.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from app.errors import InvalidWorkload
from app.spec.experiment import Experiment
from app.spec.plan import Phase, PlannedTrial
from app.spec.resolution import ResolvedExperiment, longest_output, most_prompt_tokens
from app.spec.shares import count_shares
from app.spec.workload import (
    Arrival,
    BatchArrival,
    ConcurrencyArrival,
    ConstantArrival,
    Empirical,
    FilePrompts,
    Fixed,
    ForcedOutput,
    InlinePrompts,
    LogNormal,
    NaturalOutput,
    PoissonArrival,
    SyntheticPrompts,
    TokenDistribution,
    Uniform,
)
from workers.drivers.base import Batch, Request, RequestSampling

TokenIds = tuple[int, ...]
Encode = Callable[[tuple[str, ...]], tuple[TokenIds, ...]]

# Low ids are special tokens in most vocabularies; synthetic prompts keep clear of them.
_FIRST_ORDINARY_TOKEN = 256
_SETTLING_TOKENS = 16


class SeededBatches:
    """The experiment's workload on one engine's vocabulary; ``draw_batch`` draws the requests of a trial."""

    def __init__(
        self,
        spec: Experiment,
        resolved: ResolvedExperiment,
        vocab_size: int,
        encode: Encode,
        *,
        from_file: Sequence[str | TokenIds] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Encodes given prompts once; raises InvalidWorkload where they do not fit.

        ``check`` is called for every prompt that is drawn: it may raise what ends the experiment.
        """
        self._check = check
        self._spec = spec
        self._vocab_size = vocab_size
        self._per_prompt = resolved.draws_per_prompt
        self._arrivals = {arm.name: arm.arrival for arm in resolved.arms}
        self._given = _encode_given(spec, encode, from_file)
        _check_fit(spec, resolved, vocab_size, self._given)
        self._samplings = _list_samplings(spec, vocab_size)

    @property
    def sha256(self) -> str | None:
        """Of the prompts' token ids, where they come from a file, which may change; the spec holds all else."""
        if not isinstance(self._spec.workload.prompts, FilePrompts):
            return None
        return hashlib.sha256(json.dumps(self._given).encode()).hexdigest()

    def draw_batch(self, trial: PlannedTrial) -> Batch:
        """The requests of a trial: the same for every arm of its block, but for when they come where arms say so."""
        arrival = self._arrivals[trial.arm]
        rng = self._seed_draws(trial)
        prompts = self._given or self._draw_prompts(rng)
        requests: list[Request] = []
        sampled = self._draw_samplings(trial, len(prompts))
        clock = _draw_arrivals(arrival, self._seed_draws(trial, "arrival"))
        for prompt_index, prompt in enumerate(prompts):
            self._check()
            lengths = self._draw_lengths(rng)
            seed = rng.randrange(2**31)
            for sample_index, (low, high) in enumerate(lengths):
                sampling = sampled[len(requests)]
                requests.append(
                    Request(
                        request_id=f"{trial.phase[0]}{trial.block}-{prompt_index}-{sample_index}",
                        prompt_index=prompt_index,
                        sample_index=sample_index,
                        prompt_token_ids=prompt,
                        min_tokens=low,
                        max_tokens=high,
                        seed=seed + sample_index if sampling.seeded else None,
                        arrival_s=next(clock),
                        sampling=sampling,
                    )
                )
        return Batch(
            slot=trial.slot if trial.phase is Phase.MEASURED else -1,
            requests=tuple(requests),
            concurrency=None if isinstance(arrival, BatchArrival) else arrival.limit,
            call_size=arrival.size if isinstance(arrival, BatchArrival) else None,
        )

    def draw_settling(self, trial: PlannedTrial) -> Batch:
        """A short pass of the trial's shape: every request, a few tokens each, at once, and other prompts.

        The prompts are as long but share no prefix with the trial's, given ones included: were they the same, the pass
        would fill the prefix cache for a trial that does not reset it.
        """
        batch = self.draw_batch(trial)
        rng = self._seed_draws(trial, "settling")
        prompts = {request.prompt_index: request.prompt_token_ids for request in batch.requests}
        firsts = {prompt[0] for prompt in prompts.values()}
        ids = self._ordinary_tokens()
        others: Sequence[int] = [token for token in ids if token not in firsts] or ids
        drawn = {index: (rng.choice(others), *rng.choices(ids, k=len(prompt) - 1)) for index, prompt in prompts.items()}
        requests = tuple(
            dataclasses.replace(
                request,
                prompt_token_ids=drawn[request.prompt_index],
                min_tokens=min(request.min_tokens, _SETTLING_TOKENS),
                max_tokens=min(request.max_tokens, _SETTLING_TOKENS),
                arrival_s=0.0,
            )
            for request in batch.requests
        )
        return dataclasses.replace(batch, slot=-1, requests=requests, call_size=None)

    def _seed_draws(self, trial: PlannedTrial, *what: str) -> random.Random:
        """The same for every arm; each thing that is drawn apart leaves the others as they are."""
        name = " ".join(map(str, (self._spec.plan.seed, *what, trial.phase, trial.block)))
        return random.Random(name)  # noqa: S311 - not a secret

    def _ordinary_tokens(self) -> range:
        return range(min(_FIRST_ORDINARY_TOKEN, self._vocab_size - 1), self._vocab_size)

    def _draw_prompts(self, rng: random.Random) -> Sequence[TokenIds]:
        prompts = self._spec.workload.prompts
        assert isinstance(prompts, SyntheticPrompts)  # noqa: S101 - the others are given
        ids = self._ordinary_tokens()
        drawn: list[TokenIds] = []
        for _ in range(prompts.count):
            self._check()
            drawn.append(tuple(rng.choices(ids, k=draw(prompts.tokens, rng))))
        return drawn

    def _draw_samplings(self, trial: PlannedTrial, prompts: int) -> list[RequestSampling]:
        """The sampling of every sample of a trial."""
        samples = self._spec.workload.samples_per_prompt
        units = prompts if self._per_prompt else prompts * samples
        shares_pct = [share.share_pct for share in self._spec.workload.sampling_shares]
        shares = assign_shares(shares_pct, units, self._seed_draws(trial, "sampling"))
        return [self._samplings[share] for share in shares for _ in range(samples if self._per_prompt else 1)]

    def _draw_lengths(self, rng: random.Random) -> list[tuple[int, int]]:
        """(fewest, most) output tokens of every sample of a prompt."""
        samples = self._spec.workload.samples_per_prompt
        match self._spec.workload.output:
            case ForcedOutput(tokens=tokens):
                drawn = (
                    [draw(tokens, rng)] * samples if self._per_prompt else [draw(tokens, rng) for _ in range(samples)]
                )
                return [(length, length) for length in drawn]
            case NaturalOutput(max_tokens=most):
                return [(0, most)] * samples
            case _:
                assert_never(self._spec.workload.output)


def draw(distribution: TokenDistribution, rng: random.Random) -> int:
    """One length, tokens."""
    match distribution:
        case Fixed():
            return distribution.value
        case Uniform():
            return rng.randint(distribution.low, distribution.high)
        case LogNormal():
            length = round(distribution.median * math.exp(rng.gauss(0.0, distribution.sigma)))
            return min(max(length, 1), distribution.max)
        case Empirical():
            return rng.choice(distribution.values)
        case _:
            assert_never(distribution)


def _draw_arrivals(arrival: Arrival, rng: random.Random) -> Iterator[float | None]:
    match arrival:
        case BatchArrival():
            return itertools.repeat(0.0)
        case ConcurrencyArrival():
            return itertools.repeat(None)
        case PoissonArrival(rate=rate):
            return itertools.accumulate(rng.expovariate(rate) for _ in itertools.count())
        case ConstantArrival(rate=rate):
            return (number / rate for number in itertools.count())
        case _:
            assert_never(arrival)


def assign_shares(shares_pct: Sequence[float], units: int, rng: random.Random) -> list[int]:
    """The share that every unit falls into, from 1, and 0 for the rest; InvalidWorkload where a share has none."""
    counts = count_shares(shares_pct, units)
    for share, count in zip(shares_pct, counts, strict=True):
        if not count:
            raise InvalidWorkload(f"a share of {share:g} % of {units} samples, or prompts, is none of them")
    assigned = [index for index, count in enumerate(counts, start=1) for _ in range(count)]
    assigned += [0] * (units - len(assigned))
    if shares_pct:
        rng.shuffle(assigned)
    return assigned


def _list_samplings(spec: Experiment, vocab_size: int) -> list[RequestSampling]:
    """Sampling of the rest and of every share; InvalidWorkload where it names tokens that are none."""
    ends = {"ignore_eos": isinstance(spec.workload.output, ForcedOutput)}
    samplings = []
    for sampling in spec.workload.samplings:
        for name in ("stop_token_ids", "allowed_token_ids", "logprob_token_ids", "logit_bias"):
            highest = max(map(int, getattr(sampling, name) or (0,)))
            if highest >= vocab_size:
                raise InvalidWorkload(f"workload.sampling.{name}: {highest} is none of the model's {vocab_size} tokens")
        samplings.append(RequestSampling(sampling.list_parameters() | ends, seeded=sampling.per_request_seed))
    return samplings


def _encode_given(
    spec: Experiment, encode: Encode, from_file: Sequence[str | TokenIds] | None
) -> tuple[TokenIds, ...] | None:
    prompts: Sequence[str | TokenIds]
    match spec.workload.prompts:
        case SyntheticPrompts():
            return None
        case InlinePrompts(prompts=inline):
            prompts = inline
        case FilePrompts():
            assert from_file is not None  # noqa: S101 - read before the engines started
            prompts = from_file
        case _:
            assert_never(spec.workload.prompts)
    texts = tuple(prompt for prompt in prompts if isinstance(prompt, str))
    ids = iter(encode(texts)) if texts else iter(())
    return tuple(next(ids) if isinstance(prompt, str) else prompt for prompt in prompts)


def _check_fit(
    spec: Experiment, resolved: ResolvedExperiment, vocab_size: int, given: tuple[TokenIds, ...] | None
) -> None:
    if given is None:
        return
    room = most_prompt_tokens(spec, resolved)
    longest = max(len(prompt) for prompt in given)
    if room is not None and longest > room:
        raise InvalidWorkload(
            f"the longest prompt has {longest} tokens; with {longest_output(spec)} output tokens it exceeds "
            f"max_model_len ({room + longest_output(spec)})"
        )
    for number, prompt in enumerate(given, start=1):
        if not prompt:
            raise InvalidWorkload(f"prompt {number}: the tokenizer makes no token of it")
        if max(prompt) >= vocab_size:
            raise InvalidWorkload(f"prompt {number}: token id {max(prompt)} is none of the model's {vocab_size}")
