"""The requests a user may ask for: prompts, lengths, sampling, arrival."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.experiment.base import SpecModel


class Fixed(SpecModel):
    """Always the same number of tokens."""

    distribution: Literal["fixed"] = "fixed"
    value: int = Field(ge=1, description="Tokens.", examples=[128])


class Uniform(SpecModel):
    """Whole numbers from `low` to `high`, both included."""

    distribution: Literal["uniform"] = "uniform"
    low: int = Field(ge=1, description="Fewest tokens.", examples=[64])
    high: int = Field(ge=1, description="Most tokens.", examples=[256])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high}); swap them")
        return self


class LogNormal(SpecModel):
    """Log-normal around `median`, cut off at `max`: the long tail of reasoning rollouts."""

    distribution: Literal["lognormal"] = "lognormal"
    median: int = Field(ge=1, description="Median, tokens.", examples=[512])
    sigma: float = Field(gt=0, le=5, description="Standard deviation of the natural logarithm.", examples=[0.8])
    max: int = Field(ge=1, description="Most tokens; longer draws are cut to it.", examples=[8192])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.median > self.max:
            raise ValueError(f"median ({self.median}) is above max ({self.max}); raise max")
        return self


class Empirical(SpecModel):
    """Drawn with replacement from lengths seen elsewhere."""

    distribution: Literal["empirical"] = "empirical"
    values: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        min_length=1, description="Observed lengths, tokens.", examples=[[120, 340, 8192]]
    )


TokenDistribution = Annotated[Fixed | Uniform | LogNormal | Empirical, Field(discriminator="distribution")]


class SyntheticPrompts(SpecModel):
    """Random token ids, different in every block, so that no prefix cache can help."""

    source: Literal["synthetic"] = "synthetic"
    count: int = Field(8, ge=1, le=100_000, description="Prompts.", examples=[8])
    tokens: TokenDistribution = Field(Fixed(value=128), description="Length of a prompt.")


class FilePrompts(SpecModel):
    """Prompts from a file on the worker's host: text, or lists of token ids."""

    source: Literal["file"] = "file"
    path: str = Field(min_length=1, description="A .jsonl or .parquet file.", examples=["/data/prompts.jsonl"])
    column: str = Field("prompt", description="Column that holds the prompt.", examples=["prompt"])
    count: int | None = Field(None, ge=1, le=100_000, description="First prompts to use; all if absent.")

    @model_validator(mode="after")
    def _known_format(self) -> Self:
        if not self.path.endswith((".jsonl", ".parquet")):
            raise ValueError("path must end in .jsonl or .parquet")
        return self


class InlinePrompts(SpecModel):
    """Prompts in the spec itself: text, or lists of token ids."""

    source: Literal["inline"] = "inline"
    prompts: tuple[Annotated[str, Field(min_length=1)] | Annotated[tuple[int, ...], Field(min_length=1)], ...] = Field(
        min_length=1, description="Text or token ids, one per prompt.", examples=[["What is 2 + 2?"]]
    )


Prompts = Annotated[SyntheticPrompts | FilePrompts | InlinePrompts, Field(discriminator="source")]


class ForcedOutput(SpecModel):
    """Every sample has exactly its drawn length (`ignore_eos`, `min_tokens = max_tokens`)."""

    stop: Literal["length"] = "length"
    tokens: TokenDistribution = Field(Fixed(value=128), description="Length of a sample.")


class NaturalOutput(SpecModel):
    """Samples end where the model ends them, at `max_tokens` at the latest."""

    stop: Literal["natural"] = "natural"
    max_tokens: int = Field(ge=1, description="Most output tokens.", examples=[8192])


Output = Annotated[ForcedOutput | NaturalOutput, Field(discriminator="stop")]


class Sampling(SpecModel):
    """vLLM's sampling parameters, the same in every arm."""

    temperature: float = Field(1.0, ge=0, le=10, description="0 is greedy.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling.")
    top_k: int = Field(0, ge=0, description="0 considers every token.")
    per_request_seed: bool = Field(
        True,
        description="Seed every sample, so that all arms can generate the same tokens. vLLM then samples request by "
        "request, which costs time on a GPU; off, only token counts are forced to be equal.",
    )


class BatchArrival(SpecModel):
    """All requests are there when the trial begins."""

    pattern: Literal["batch"] = "batch"


class PoissonArrival(SpecModel):
    """Requests arrive one by one, independently of each other."""

    pattern: Literal["poisson"] = "poisson"
    rate: float = Field(gt=0, description="Requests per second.", examples=[4.0])


class ConcurrencyArrival(SpecModel):
    """A fixed number of requests in flight: a new one starts when one is done."""

    pattern: Literal["concurrency"] = "concurrency"
    limit: int = Field(ge=1, description="Requests in flight.", examples=[64])


Arrival = Annotated[BatchArrival | PoissonArrival | ConcurrencyArrival, Field(discriminator="pattern")]


class Turns(SpecModel):
    """Turns of an agent loop."""

    count: Literal[1] = Field(1, description="This version runs single turns.")


class Workload(SpecModel):
    """The requests of one trial."""

    prompts: Prompts = Field(SyntheticPrompts(), description="Where the prompts come from.")
    samples_per_prompt: int = Field(4, ge=1, le=1024, description="Samples generated for every prompt.")
    output: Output = Field(ForcedOutput(), description="How long the samples are.")
    sampling: Sampling = Field(Sampling(), description="Sampling parameters.")
    arrival: Arrival = Field(BatchArrival(), description="When the requests start.")
    turns: Turns = Field(Turns(), description="Turns of an agent loop.")
