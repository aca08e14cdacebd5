"""vLLM's sampling parameters, by vLLM's names, for all samples or a share of them."""

import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, JsonValue, create_model, model_validator

from app.spec.frozen import SpecModel
from app.spec.values import (
    LONGEST_GRAMMAR,
    LONGEST_STOP,
    MOST_ALLOWED_TOKENS,
    MOST_BIASED_TOKENS,
    MOST_CHOICES,
    MOST_SCORED_TOKENS,
    MOST_STOPS,
    MOST_TOKEN_ID,
    MOST_TOKENS,
    MOST_WORDS,
    OnlyTrue,
    Real,
    Switch,
    Whole,
)

_TokenId = Annotated[Whole, Field(ge=0, le=MOST_TOKEN_ID)]
_Words = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
_Grammar = Annotated[str, Field(min_length=1, max_length=LONGEST_GRAMMAR)]


def _bound_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    characters = len(json.dumps(schema))
    if characters > LONGEST_GRAMMAR:
        raise ValueError(f"has {characters:,} characters; the most is {LONGEST_GRAMMAR:,}")
    return schema


_JsonSchema = Annotated[dict[str, JsonValue], Field(max_length=LONGEST_GRAMMAR), AfterValidator(_bound_schema)]

# --- structured outputs --------------------------------------------------------------------------------------------

_CONSTRAINTS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


class _OneConstraint(SpecModel):
    @model_validator(mode="after")
    def _one_constraint(self) -> Self:
        said = [name for name in _CONSTRAINTS if getattr(self, name) is not None]
        if len(said) != 1:
            raise ValueError(f"needs one of {', '.join(_CONSTRAINTS)}, and has {' and '.join(said) or 'none'}")
        return self


def _build_structured_outputs() -> type[SpecModel]:
    """With vLLM's own name `json`, which is also that of a method pydantic has given up."""
    fields: dict[str, Any] = {
        "json": (
            _JsonSchema | None,
            Field(None, description="A JSON schema.", examples=[{"type": "object"}]),
        ),
        "regex": (_Grammar | None, Field(None, description="A regular expression.", examples=["[0-9]{4}"])),
        "choice": (
            Annotated[tuple[_Grammar, ...], Field(min_length=1, max_length=MOST_CHOICES)] | None,
            Field(None, description="The texts a sample may be.", examples=[["yes", "no"]]),
        ),
        "grammar": (_Grammar | None, Field(None, description="A grammar, in EBNF.", examples=['root ::= "a" | "b"'])),
        "json_object": (OnlyTrue | None, Field(None, description="Any JSON object.", examples=[True])),
        "structural_tag": (
            _Grammar | None,
            Field(None, description="vLLM's structural tag, as JSON text.", examples=['{"structures": []}']),
        ),
        "disable_any_whitespace": (
            Switch | None,
            Field(None, description="JSON without white space.", examples=[True]),
        ),
        "disable_additional_properties": (
            Switch | None,
            Field(None, description="JSON objects have no other keys than those of the schema.", examples=[True]),
        ),
        "whitespace_pattern": (
            _Grammar | None,
            Field(None, description="White space between parts of JSON, a regular expression.", examples=["[ ]?"]),
        ),
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='Field name "json"', category=UserWarning)
        return create_model(
            "StructuredOutputs",
            __base__=_OneConstraint,
            __doc__="What a sample must be, as vLLM's `StructuredOutputsParams`: one constraint.",
            **fields,
        )


if TYPE_CHECKING:

    class StructuredOutputs(SpecModel):
        """What a sample must be."""
else:
    StructuredOutputs = _build_structured_outputs()


class RepetitionDetection(SpecModel):
    """When a sample repeats itself so much that it is ended, as vLLM's `RepetitionDetectionParams`."""

    max_pattern_size: Whole = Field(ge=1, le=1024, description="Longest pattern that is looked for.", examples=[8])
    min_pattern_size: Whole = Field(1, ge=1, le=1024, description="Shortest pattern that is looked for.", examples=[2])
    min_count: Whole = Field(ge=2, le=MOST_TOKENS, description="So many times in a row end the sample.", examples=[4])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_pattern_size > self.max_pattern_size:
            raise ValueError(f"min_pattern_size ({self.min_pattern_size}) is above max_pattern_size; swap them")
        return self


# --- sampling ------------------------------------------------------------------------------------------------------

_NOT_HERE = "not offered here"


class Sampling(SpecModel):
    """vLLM's sampling parameters, the same in every arm; what is absent is as vLLM has it by default."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "n": "say workload.samples_per_prompt, and driver.samples: n_parameter to ask for them with n",
        "best_of": "say workload.samples_per_prompt",
        "seed": "say plan.seed; every sample has a seed of its own unless per_request_seed is false",
        "max_tokens": "say workload.output",
        "min_tokens": "say workload.output",
        "ignore_eos": "say workload.output.stop: length",
        "logprobs": "say driver.logprobs, in which arms may differ",
        "detokenize": "say driver.detokenize, in which arms may differ",
        "output_kind": "say driver.output_kind, in which arms may differ",
        "stream_interval": "say engine.stream_interval",
        "trace_decode_token_ids": f"{_NOT_HERE}: say workload.output.tokens to force lengths",
        "prompt_logprob_token_ids": f"{_NOT_HERE}: it scores the tokens of one prompt; say prompt_logprobs",
        "prompt_logprob_start": f"{_NOT_HERE}: it scores the tokens of one prompt; say prompt_logprobs",
        "routed_experts_prompt_start": f"{_NOT_HERE}: this version runs single turns",
        "watermarking": f"{_NOT_HERE}: it follows the engine's own setting",
        "extra_args": f"{_NOT_HERE}: they are for logits processors of somebody's own",
        "logits_processors": f"{_NOT_HERE}: they are code",
        "guided_decoding": "vLLM calls it structured_outputs now",
        "skip_clone": f"{_NOT_HERE}: every request has parameters of its own already",
    }

    temperature: Real = Field(1.0, ge=0, le=10, description="Divides the logits; 0 is greedy.", examples=[1.0])
    top_p: Real = Field(
        1.0, gt=0, le=1, description="Nucleus sampling: share of the probability to draw from.", examples=[0.95]
    )
    top_k: Whole = Field(
        0, ge=0, le=MOST_TOKEN_ID, description="Likeliest tokens to draw from; 0 considers every token.", examples=[50]
    )
    min_p: Real | None = Field(
        None,
        ge=0,
        le=1,
        description="Least probability, as a share of the likeliest token's.",
        examples=[0.05],
    )
    presence_penalty: Real | None = Field(
        None, ge=-2, le=2, description="Taken from the logits of tokens the sample has.", examples=[0.5]
    )
    frequency_penalty: Real | None = Field(
        None, ge=-2, le=2, description="Taken from a token's logit each time the sample has it.", examples=[0.5]
    )
    repetition_penalty: Real | None = Field(
        None, gt=0, le=100, description="Divides the logits of tokens that prompt or sample have.", examples=[1.1]
    )
    stop: Annotated[tuple[_Words, ...], Field(min_length=1, max_length=MOST_STOPS)] | None = Field(
        None, description="Texts that end a sample; arms need driver.detokenize: true.", examples=[["\n\n"]]
    )
    stop_token_ids: Annotated[tuple[_TokenId, ...], Field(min_length=1, max_length=MOST_STOPS)] | None = Field(
        None, description="Tokens that end a sample.", examples=[[13]]
    )
    include_stop_str_in_output: Switch | None = Field(
        None, description="Leave the text that ended a sample in it.", examples=[True]
    )
    bad_words: Annotated[tuple[_Words, ...], Field(min_length=1, max_length=MOST_WORDS)] | None = Field(
        None, description="Words no sample may have.", examples=[["sorry"]]
    )
    logit_bias: (
        Annotated[
            dict[
                Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")],
                Annotated[Real, Field(ge=-100, le=100)],
            ],
            Field(min_length=1, max_length=MOST_BIASED_TOKENS),
        ]
        | None
    ) = Field(None, description="Added to logits, by token id.", examples=[{"42": -100}])
    allowed_token_ids: Annotated[tuple[_TokenId, ...], Field(min_length=1, max_length=MOST_ALLOWED_TOKENS)] | None = (
        Field(None, description="The only tokens a sample may have.", examples=[[300, 301]])
    )
    structured_outputs: StructuredOutputs | None = Field(
        None, description="What a sample must be: JSON, a choice, a grammar.", examples=[{"choice": ["yes", "no"]}]
    )
    repetition_detection: RepetitionDetection | None = Field(
        None,
        description="End a sample that repeats itself.",
        examples=[{"max_pattern_size": 8, "min_count": 4}],
    )
    thinking_token_budget: Whole | None = Field(
        None, ge=0, le=MOST_TOKENS, description="Most tokens of thinking; needs a reasoning parser.", examples=[1024]
    )
    prompt_logprobs: Whole | None = Field(
        None, ge=0, le=1000, description="Log probabilities per token of the prompt.", examples=[1]
    )
    logprob_token_ids: Annotated[tuple[_TokenId, ...], Field(min_length=1, max_length=MOST_SCORED_TOKENS)] | None = (
        Field(None, description="Tokens whose log probabilities are asked for at every step.", examples=[[300, 301]])
    )
    flat_logprobs: Switch | None = Field(
        None, description="Log probabilities in flat lists, which are less work to collect.", examples=[True]
    )
    skip_special_tokens: Switch | None = Field(
        None, description="Leave special tokens out of the text; arms need driver.detokenize: true.", examples=[False]
    )
    spaces_between_special_tokens: Switch | None = Field(
        None, description="Spaces between special tokens; arms need driver.detokenize: true.", examples=[False]
    )
    skip_reading_prefix_cache: Switch | None = Field(
        None, description="Compute the whole prompt, whatever the prefix cache has.", examples=[True]
    )
    per_request_seed: Switch = Field(
        True,
        description="Seed every sample, so that all arms can generate the same tokens. vLLM then samples request by "
        "request, which costs time on a GPU; off, only token counts are forced to be equal.",
        examples=[False],
    )

    def list_parameters(self) -> dict[str, JsonValue]:
        """What goes to vLLM, by its names, as JSON writes it."""
        said: dict[str, JsonValue] = self.model_dump(mode="json", exclude_none=True, exclude={"per_request_seed"})
        return said


class SamplingShare(SpecModel):
    """A share of the samples with sampling parameters of its own."""

    share_pct: Real = Field(
        gt=0, le=100, description="Share of the samples, percent; which ones is drawn for every block.", examples=[25]
    )
    sampling: Sampling = Field(
        description="What differs from workload.sampling; what is absent is as there.",
        examples=[{"structured_outputs": {"choice": ["yes", "no"]}}],
    )
