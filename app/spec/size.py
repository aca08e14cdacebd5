"""How large an experiment is, before anything of it is made."""

import math
from collections.abc import Iterator
from typing import assert_never

from app.errors import FieldError
from app.spec.experiment import Experiment, Residency
from app.spec.values import (
    MOST_PROMPT_TOKENS_PER_TRIAL,
    MOST_SAMPLES,
    MOST_SAMPLES_PER_TRIAL,
    MOST_SAMPLING_CHARACTERS_PER_TRIAL,
    MOST_TOKENS_IN_ALL,
    MOST_TOKENS_PER_TRIAL,
    MOST_TRIALS,
)
from app.spec.workload import (
    Empirical,
    FilePrompts,
    Fixed,
    ForcedOutput,
    InlinePrompts,
    LogNormal,
    NaturalOutput,
    SyntheticPrompts,
    TokenDistribution,
    Uniform,
)


def count_prompts(spec: Experiment) -> int | None:
    """Prompts of a trial; None where only the worker can count them."""
    match spec.workload.prompts:
        case SyntheticPrompts() | FilePrompts() as prompts:
            return prompts.count
        case InlinePrompts() as prompts:
            return len(prompts.prompts)
        case _:
            assert_never(spec.workload.prompts)


def count_samples(spec: Experiment) -> int | None:
    """Samples of a trial; None where only the worker can count the prompts."""
    count = count_prompts(spec)
    return None if count is None else count * spec.workload.samples_per_prompt


def count_trials(spec: Experiment) -> int:
    """Trials that are planned, warm-ups included."""
    arms = 2 if spec.calibrate else len(spec.arms)
    measured = arms * spec.plan.blocks
    rounds = measured if spec.plan.residency is Residency.RESTART else arms * spec.plan.starts
    return measured + rounds * spec.plan.warmup_trials


def too_large(spec: Experiment) -> Iterator[FieldError]:
    """What no machine could run in a bearable time, with its size and what there may be at most."""
    trials, samples = count_trials(spec), count_samples(spec) or spec.workload.samples_per_prompt
    prompt_tokens = (count_prompts(spec) or 1) * _mean_prompt(spec)
    tokens = samples * (_mean_prompt(spec) + _mean_output(spec))
    if trials > MOST_TRIALS:
        yield FieldError("/plan", f"{trials:,} trials, warm-ups included: the most is {MOST_TRIALS:,}")
    if samples > MOST_SAMPLES_PER_TRIAL:
        yield FieldError("/workload", f"{samples:,} samples per trial: the most is {MOST_SAMPLES_PER_TRIAL:,}")
    elif samples * trials > MOST_SAMPLES:
        yield FieldError(
            "/plan", f"{trials:,} trials of {samples:,} samples are {trials * samples:,}: the most is {MOST_SAMPLES:,}"
        )
    if prompt_tokens > MOST_PROMPT_TOKENS_PER_TRIAL:
        yield FieldError(
            "/workload/prompts",
            f"{count_prompts(spec) or 1:,} prompts of about {_mean_prompt(spec):,.0f} tokens: the most is "
            f"{MOST_PROMPT_TOKENS_PER_TRIAL:,} tokens of prompts per trial",
        )
    characters = max(len(sampling.model_dump_json(exclude_none=True)) for sampling in spec.workload.samplings)
    if samples * characters > MOST_SAMPLING_CHARACTERS_PER_TRIAL:
        yield FieldError(
            "/workload/sampling",
            f"{characters:,} characters of sampling parameters with each of {samples:,} samples: the most is "
            f"{MOST_SAMPLING_CHARACTERS_PER_TRIAL:,} characters per trial",
        )
    if tokens > MOST_TOKENS_PER_TRIAL:
        yield FieldError(
            "/workload",
            f"{samples:,} samples of about {tokens / samples:,.0f} tokens, prompt and output: the most is "
            f"{MOST_TOKENS_PER_TRIAL:,} tokens per trial",
        )
    elif tokens * trials > MOST_TOKENS_IN_ALL:
        yield FieldError(
            "/plan",
            f"{trials:,} trials of about {tokens:,.0f} tokens are {tokens * trials:,.0f}: the most is "
            f"{MOST_TOKENS_IN_ALL:,}",
        )


def _mean_prompt(spec: Experiment) -> float:
    match spec.workload.prompts:
        case SyntheticPrompts(tokens=tokens):
            return _mean(tokens)
        case FilePrompts():  # the worker bounds what it reads
            return 0.0
        case InlinePrompts(prompts=prompts):
            return sum(map(len, prompts)) / len(prompts)
        case _:
            assert_never(spec.workload.prompts)


def _mean_output(spec: Experiment) -> float:
    match spec.workload.output:
        case ForcedOutput(tokens=tokens):
            return _mean(tokens)
        case NaturalOutput():  # the model ends it
            return 1.0
        case _:
            assert_never(spec.workload.output)


def _mean(distribution: TokenDistribution) -> float:
    match distribution:
        case Fixed():
            return float(distribution.value)
        case Uniform():
            return (distribution.low + distribution.high) / 2
        case LogNormal():
            return min(float(distribution.max), distribution.median * math.exp(distribution.sigma**2 / 2))
        case Empirical():
            return sum(distribution.values) / len(distribution.values)
        case _:
            assert_never(distribution)
