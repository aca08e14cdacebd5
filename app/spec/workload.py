"""The requests a user may ask for: prompts, lengths, sampling, arrival."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from app.spec.frozen import SpecModel
from app.spec.sampling import Sampling, SamplingShare
from app.spec.shares import require_whole
from app.spec.values import (
    LONGEST_PATH,
    LONGEST_WORD,
    MOST_LENGTHS,
    MOST_PROMPTS,
    MOST_SAMPLES_PER_TRIAL,
    MOST_SHARES,
    MOST_TOKEN_ID,
    MOST_TOKENS,
    Only1,
    Real,
    Whole,
)


def _tagged_by(tag: str, union: Any) -> BeforeValidator:
    """Fills in the tag of a union where it is absent and the other keys can be those of one member only."""
    members: tuple[type[SpecModel], ...] = get_args(union)

    def tagged(value: object) -> object:
        if not isinstance(value, dict) or tag in value:
            return value
        meant = [member for member in members if _takes(member, value)]
        return {tag: meant[0].model_fields[tag].default, **value} if len(meant) == 1 else value

    return BeforeValidator(tagged)


def _takes(model: type[SpecModel], keys: Collection[object]) -> bool:
    """Whether these keys are all that a model needs, and none that it does not know."""
    needed = {name for name, field in model.model_fields.items() if field.is_required()}
    return needed <= set(keys) <= set(model.model_fields)


# --- lengths -------------------------------------------------------------------------------------------------------


class Fixed(SpecModel):
    """Always the same number of tokens."""

    distribution: Literal["fixed"] = Field(
        "fixed", description="Kind of distribution; the other keys say it too.", examples=["fixed"]
    )
    value: Whole = Field(ge=1, le=MOST_TOKENS, description="Tokens.", examples=[128])


class Uniform(SpecModel):
    """Whole numbers from `low` to `high`, both included."""

    distribution: Literal["uniform"] = Field(
        "uniform", description="Kind of distribution; the other keys say it too.", examples=["uniform"]
    )
    low: Whole = Field(ge=1, le=MOST_TOKENS, description="Fewest tokens.", examples=[64])
    high: Whole = Field(ge=1, le=MOST_TOKENS, description="Most tokens.", examples=[256])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high}); swap them")
        return self


class LogNormal(SpecModel):
    """Log-normal around `median`, cut off at `max`: the long tail of reasoning rollouts."""

    distribution: Literal["lognormal"] = Field(
        "lognormal", description="Kind of distribution; the other keys say it too.", examples=["lognormal"]
    )
    median: Whole = Field(ge=1, le=MOST_TOKENS, description="Median, tokens.", examples=[512])
    sigma: Real = Field(gt=0, le=5, description="Standard deviation of the natural logarithm.", examples=[0.8])
    max: Whole = Field(ge=1, le=MOST_TOKENS, description="Most tokens; longer draws are cut to it.", examples=[8192])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.median > self.max:
            raise ValueError(f"median ({self.median}) is above max ({self.max}); raise max")
        return self


class Empirical(SpecModel):
    """Drawn with replacement from lengths seen elsewhere."""

    distribution: Literal["empirical"] = Field(
        "empirical", description="Kind of distribution; the other keys say it too.", examples=["empirical"]
    )
    values: tuple[Annotated[Whole, Field(ge=1, le=MOST_TOKENS)], ...] = Field(
        min_length=1, max_length=MOST_LENGTHS, description="Observed lengths, tokens.", examples=[[120, 340, 8192]]
    )


_AnyDistribution = Fixed | Uniform | LogNormal | Empirical
TokenDistribution = Annotated[
    _AnyDistribution, Field(discriminator="distribution"), _tagged_by("distribution", _AnyDistribution)
]


# --- prompts -------------------------------------------------------------------------------------------------------


class SyntheticPrompts(SpecModel):
    """Random token ids, different in every block, so that no prefix cache can help."""

    source: Literal["synthetic"] = Field(
        "synthetic", description="Kind of source; what is meant if it is absent.", examples=["synthetic"]
    )
    count: Whole = Field(8, ge=1, le=MOST_PROMPTS, description="Prompts.", examples=[8])
    tokens: TokenDistribution = Field(
        Fixed(value=128),
        description="Length of a prompt, tokens.",
        examples=[{"distribution": "fixed", "value": 128}],
    )


class FilePrompts(SpecModel):
    """Prompts from a file on the worker's host: text, or lists of token ids."""

    source: Literal["file"] = Field("file", description="Kind of source; `path` says it too.", examples=["file"])
    path: str = Field(
        min_length=1,
        max_length=LONGEST_PATH,
        description="A .jsonl or .parquet file below a folder that the worker's operator named.",
        examples=["/data/prompts.jsonl"],
    )
    column: str = Field(
        "prompt",
        min_length=1,
        max_length=LONGEST_WORD,
        description="Column that holds the prompt.",
        examples=["prompt"],
    )
    count: Whole | None = Field(
        None, ge=1, le=MOST_PROMPTS, description="Prompts to use, the first of the file; all if absent.", examples=[256]
    )

    @model_validator(mode="after")
    def _known_format(self) -> Self:
        if not self.path.endswith((".jsonl", ".parquet")):
            raise ValueError("path must end in .jsonl or .parquet")
        return self


_Text = Annotated[str, Field(min_length=1)]  # as long as the body of a request may be
_TokenIds = Annotated[tuple[Annotated[Whole, Field(ge=0, le=MOST_TOKEN_ID)], ...], Field(min_length=1)]


class InlinePrompts(SpecModel):
    """Prompts in the spec itself: text, or lists of token ids."""

    source: Literal["inline"] = Field(
        "inline", description="Kind of source; `prompts` says it too.", examples=["inline"]
    )
    prompts: tuple[_Text | _TokenIds, ...] = Field(
        min_length=1,
        max_length=MOST_PROMPTS,
        description="Text or token ids, one per prompt.",
        examples=[["What is 2 + 2?"]],
    )


_AnyPrompts = SyntheticPrompts | FilePrompts | InlinePrompts
Prompts = Annotated[_AnyPrompts, Field(discriminator="source"), _tagged_by("source", _AnyPrompts)]


# --- output --------------------------------------------------------------------------------------------------------


class ForcedOutput(SpecModel):
    """Every sample has exactly its drawn length (`ignore_eos`, `min_tokens = max_tokens`)."""

    stop: Literal["length"] = Field(
        "length", description="What ends a sample; what is meant if it is absent.", examples=["length"]
    )
    tokens: TokenDistribution = Field(
        Fixed(value=128),
        description="Length of a sample, tokens.",
        examples=[{"distribution": "lognormal", "median": 512, "sigma": 0.8, "max": 8192}],
    )


class NaturalOutput(SpecModel):
    """Samples end where the model ends them, at `max_tokens` at the latest."""

    stop: Literal["natural"] = Field(
        "natural", description="What ends a sample; `max_tokens` says it too.", examples=["natural"]
    )
    max_tokens: Whole = Field(ge=1, le=MOST_TOKENS, description="Most output tokens.", examples=[8192])


_AnyOutput = ForcedOutput | NaturalOutput
Output = Annotated[_AnyOutput, Field(discriminator="stop"), _tagged_by("stop", _AnyOutput)]


# --- arrival -------------------------------------------------------------------------------------------------------


_Rate = Annotated[Real, Field(ge=0.001, le=1_000_000, description="Samples per second on average.", examples=[4.0])]
_Cap = Annotated[
    Whole | None,
    Field(
        ge=1,
        le=MOST_SAMPLES_PER_TRIAL,
        description="Most requests in flight. One that waits for a slot should have started when it arrived.",
        examples=[64],
    ),
]


class BatchArrival(SpecModel):
    """All requests are there when the trial begins; or they come in calls, each once the one before is done."""

    pattern: Literal["batch"] = Field(
        "batch", description="How requests arrive; what is meant if it is absent.", examples=["batch"]
    )
    size: Whole | None = Field(
        None,
        ge=1,
        le=MOST_SAMPLES_PER_TRIAL,
        description="Samples of one call, as in `LLM.generate` in batches: the next call begins when all of it is "
        "there. One call of everything if absent.",
        examples=[512],
    )


class PoissonArrival(SpecModel):
    """Requests arrive one by one, independently of each other."""

    pattern: Literal["poisson"] = Field(
        "poisson", description="How requests arrive; `rate` says it too.", examples=["poisson"]
    )
    rate: _Rate
    limit: _Cap = None


class ConstantArrival(SpecModel):
    """Requests arrive one by one, all the same time apart."""

    pattern: Literal["constant"] = Field(description="How requests arrive.", examples=["constant"])
    rate: _Rate
    limit: _Cap = None


class ConcurrencyArrival(SpecModel):
    """A fixed number of requests in flight: a new one starts when one is done."""

    pattern: Literal["concurrency"] = Field(
        "concurrency", description="How requests arrive; `limit` says it too.", examples=["concurrency"]
    )
    limit: Whole = Field(ge=1, le=MOST_SAMPLES_PER_TRIAL, description="Requests in flight.", examples=[64])


_AnyArrival = BatchArrival | PoissonArrival | ConstantArrival | ConcurrencyArrival
Arrival = Annotated[_AnyArrival, Field(discriminator="pattern"), _tagged_by("pattern", _AnyArrival)]


# --- the workload --------------------------------------------------------------------------------------------------


class Turns(SpecModel):
    """Turns of an agent loop."""

    count: Only1 = Field(1, description="Turns; this version runs single ones.", examples=[1])


class Workload(SpecModel):
    """The requests of one trial."""

    prompts: Prompts = Field(
        SyntheticPrompts(),
        description="Where the prompts come from.",
        examples=[{"source": "synthetic", "count": 8, "tokens": {"distribution": "fixed", "value": 128}}],
    )
    samples_per_prompt: Whole = Field(4, ge=1, le=1024, description="Samples generated for every prompt.", examples=[4])
    output: Output = Field(
        ForcedOutput(),
        description="How long the samples are.",
        examples=[{"stop": "length", "tokens": {"distribution": "fixed", "value": 128}}],
    )
    sampling: Sampling = Field(Sampling(), description="Sampling parameters.", examples=[{"temperature": 1.0}])
    sampling_shares: tuple[SamplingShare, ...] = Field(
        (),
        max_length=MOST_SHARES,
        description="Shares of the samples whose sampling differs; the rest is as `sampling` says.",
        examples=[[{"share_pct": 25, "sampling": {"structured_outputs": {"choice": ["yes", "no"]}}}]],
    )
    arrival: Arrival = Field(
        BatchArrival(), description="When the requests start.", examples=[{"pattern": "concurrency", "limit": 64}]
    )
    turns: Turns = Field(Turns(), description="Turns of an agent loop.", examples=[{"count": 1}])

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        """Sampling parameters of every share, spelled out; those of the rest come first, even if there is none."""
        common = self.sampling.model_dump()
        return (
            self.sampling,
            *(
                Sampling.model_validate(common | share.sampling.model_dump(exclude_unset=True))
                for share in self.sampling_shares
            ),
        )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        require_whole([share.share_pct for share in self.sampling_shares], "sampling_shares")
        return self
