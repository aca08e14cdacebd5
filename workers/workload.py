"""From a workload and a seed to concrete requests: pure, but for files the spec names.

Within a block every arm gets the same requests; across blocks they differ, so that neither the prefix cache nor luck
carries over.
"""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import assert_never

from app.errors import InvalidWorkload
from app.spec.experiment import Experiment
from app.spec.plan import Phase, PlannedTrial
from app.spec.resolution import ResolvedExperiment, longest_output
from app.spec.workload import (
    BatchArrival,
    ConcurrencyArrival,
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
from workers.drivers.base import Batch, Request, Sampling

TokenIds = tuple[int, ...]
Encode = Callable[[tuple[str, ...]], tuple[TokenIds, ...]]

# Low ids are special tokens in most vocabularies; synthetic prompts keep clear of them.
_FIRST_ORDINARY_TOKEN = 256


class Workload:
    """The experiment's workload on one engine's vocabulary; ``batch`` draws the requests of a trial."""

    def __init__(self, spec: Experiment, resolved: ResolvedExperiment, vocab_size: int, encode: Encode) -> None:
        """Reads and encodes given prompts once; raises InvalidWorkload where they cannot be used."""
        self._spec = spec
        self._vocab_size = vocab_size
        self._per_prompt = resolved.lengths_per_prompt
        self._given = _given_prompts(spec, encode)
        _check_fit(spec, resolved, self._given)

    @property
    def sha256(self) -> str | None:
        """Of the prompts' token ids, where they come from a file, which may change; the spec holds all else."""
        if not isinstance(self._spec.workload.prompts, FilePrompts):
            return None
        return hashlib.sha256(json.dumps(self._given).encode()).hexdigest()

    def batch(self, trial: PlannedTrial) -> Batch:
        """The requests of a trial: the same for every arm of its block."""
        workload = self._spec.workload
        rng = random.Random(f"{self._spec.plan.seed} {trial.phase} {trial.block}")  # noqa: S311 - not a secret
        prompts = self._given or self._synthetic(rng)
        requests: list[Request] = []
        clock = _arrivals(workload.arrival, rng)
        for prompt_index, prompt in enumerate(prompts):
            lengths = self._lengths(rng)
            seed = rng.randrange(2**31)
            for sample_index, (low, high) in enumerate(lengths):
                requests.append(
                    Request(
                        request_id=f"{trial.phase[0]}{trial.block}-{prompt_index}-{sample_index}",
                        prompt_index=prompt_index,
                        sample_index=sample_index,
                        prompt_token_ids=prompt,
                        min_tokens=low,
                        max_tokens=high,
                        seed=seed + sample_index if workload.sampling.per_request_seed else None,
                        arrival_s=next(clock),
                    )
                )
        return Batch(
            slot=trial.slot if trial.phase is Phase.MEASURED else -1,
            requests=tuple(requests),
            sampling=Sampling(
                temperature=workload.sampling.temperature,
                top_p=workload.sampling.top_p,
                top_k=workload.sampling.top_k,
                ignore_eos=isinstance(workload.output, ForcedOutput),
            ),
            concurrency=workload.arrival.limit if isinstance(workload.arrival, ConcurrencyArrival) else None,
        )

    def _synthetic(self, rng: random.Random) -> Sequence[TokenIds]:
        prompts = self._spec.workload.prompts
        assert isinstance(prompts, SyntheticPrompts)  # noqa: S101 - the others are given
        low = min(_FIRST_ORDINARY_TOKEN, self._vocab_size - 1)
        ids = range(low, self._vocab_size)
        return [tuple(rng.choices(ids, k=draw(prompts.tokens, rng))) for _ in range(prompts.count)]

    def _lengths(self, rng: random.Random) -> list[tuple[int, int]]:
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


def _arrivals(arrival: BatchArrival | PoissonArrival | ConcurrencyArrival, rng: random.Random) -> Iterator[float]:
    match arrival:
        case BatchArrival() | ConcurrencyArrival():
            return itertools.repeat(0.0)
        case PoissonArrival(rate=rate):
            return itertools.accumulate(rng.expovariate(rate) for _ in itertools.count())
        case _:
            assert_never(arrival)


def _given_prompts(spec: Experiment, encode: Encode) -> tuple[TokenIds, ...] | None:
    match spec.workload.prompts:
        case SyntheticPrompts():
            return None
        case InlinePrompts(prompts=prompts):
            return _encoded(prompts, encode)
        case FilePrompts() as source:
            return _encoded(_read(source), encode)
        case _:
            assert_never(spec.workload.prompts)


def _encoded(prompts: Sequence[str | TokenIds], encode: Encode) -> tuple[TokenIds, ...]:
    texts = tuple(prompt for prompt in prompts if isinstance(prompt, str))
    ids = iter(encode(texts)) if texts else iter(())
    return tuple(next(ids) if isinstance(prompt, str) else prompt for prompt in prompts)


def _read(source: FilePrompts) -> list[str | TokenIds]:
    try:
        values = _read_parquet(source) if source.path.endswith(".parquet") else _read_jsonl(source)
    except OSError as error:
        raise InvalidWorkload(f"workload.prompts.path: {error}") from None
    if not values:
        raise InvalidWorkload(f"workload.prompts.path: {source.path} holds no prompts")
    return values


def _read_jsonl(source: FilePrompts) -> list[str | TokenIds]:
    values: list[str | TokenIds] = []
    with Path(source.path).open() as lines:
        for number, line in enumerate(itertools.islice(lines, source.count), start=1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InvalidWorkload(f"{source.path}, line {number}: not JSON ({error})") from None
            if not isinstance(row, dict) or source.column not in row:
                raise InvalidWorkload(f"{source.path}, line {number}: no {source.column!r}")
            values.append(_prompt(row[source.column], f"{source.path}, line {number}"))
    return values


def _read_parquet(source: FilePrompts) -> list[str | TokenIds]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pq.read_table(source.path, columns=[source.column]).column(0)
    except (pa.ArrowException, IndexError) as error:
        raise InvalidWorkload(f"{source.path}: cannot read column {source.column!r} ({error})") from None
    rows = column.slice(0, source.count).to_pylist() if source.count else column.to_pylist()
    return [_prompt(row, f"{source.path}, row {number}") for number, row in enumerate(rows, start=1)]


def _prompt(value: object, where: str) -> str | TokenIds:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    raise InvalidWorkload(f"{where}: a prompt is text or a list of token ids")


def _check_fit(spec: Experiment, resolved: ResolvedExperiment, given: tuple[TokenIds, ...] | None) -> None:
    limits = [arm.engine.max_model_len for arm in resolved.arms if arm.engine.max_model_len is not None]
    if given is None or not limits:
        return
    longest = max(len(prompt) for prompt in given)
    if longest + longest_output(spec) > min(limits):
        raise InvalidWorkload(
            f"the longest prompt has {longest} tokens; with {longest_output(spec)} output tokens it exceeds "
            f"max_model_len ({min(limits)})"
        )
