"""The engine an arm runs: its model, its settings, its environment."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.spec.frozen import SpecModel
from app.spec.values import (
    LONGEST_PATH,
    LONGEST_REFERENCE,
    LONGEST_WORD,
    MOST_SEED,
    MOST_TOKENS,
    Real,
    Switch,
    Whole,
    Word,
)

# --- model ---------------------------------------------------------------------------------------------------------


class LoadFormat(StrEnum):
    """vLLM's ``load_format``: real weights, or random ones of the right shape."""

    AUTO = "auto"
    DUMMY = "dummy"


class PresetModel(SpecModel):
    """A model this project ships: shape and, for the tiny one, a tokenizer; no download."""

    preset: str = Field(
        max_length=LONGEST_WORD, description="Name of a model preset (GET /v1/models).", examples=["tiny-qwen2"]
    )


class HubModel(SpecModel):
    """A Hugging Face id or a directory on the worker's host."""

    id: str = Field(
        min_length=1,
        max_length=LONGEST_REFERENCE,
        description="Hugging Face id, or a path on the worker's host below a folder that its operator named.",
        examples=["deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"],
    )
    revision: str | None = Field(
        None,
        max_length=255,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$",
        description="Commit, tag or branch on the hub.",
        examples=["main"],
    )
    load_format: LoadFormat = Field(
        LoadFormat.AUTO, description="`dummy` gives random weights of the model's shape.", examples=["dummy"]
    )
    tokenizer: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_REFERENCE,
        description="Tokenizer, if not the model's own: named as models are.",
        examples=["Qwen/Qwen2.5-7B"],
    )


def _model_tag(value: Any) -> str:
    if isinstance(value, PresetModel):
        return "preset"
    return "preset" if isinstance(value, dict) and "preset" in value else "id"


Model = Annotated[Annotated[PresetModel, Tag("preset")] | Annotated[HubModel, Tag("id")], Discriminator(_model_tag)]

# --- engine --------------------------------------------------------------------------------------------------------


class EngineSettings(SpecModel):
    """vLLM engine arguments under vLLM's own names and with vLLM's meaning.

    A field that is absent gets this project's common default; an explicit null leaves the choice to vLLM, which may
    then choose differently for two arms (the parity check will say so).
    """

    tensor_parallel_size: Whole | None = Field(
        None, ge=1, le=1024, description="GPUs one engine is split over.", examples=[1]
    )
    dtype: Literal["auto", "float16", "bfloat16", "float32"] | None = Field(
        None, description="Data type of weights and activations.", examples=["bfloat16"]
    )
    quantization: Word | None = Field(None, description="Quantisation method of the weights.", examples=["fp8"])
    kv_cache_dtype: Word | None = Field(None, description="Data type of the KV cache.", examples=["auto"])
    max_model_len: Whole | None = Field(
        None,
        ge=1,
        le=2 * MOST_TOKENS,
        description="Longest prompt plus output, tokens; what the workload needs if absent.",
        examples=[9216],
    )
    max_num_seqs: Whole | None = Field(
        None, ge=1, le=1_000_000, description="Most sequences in one step.", examples=[256]
    )
    max_num_batched_tokens: Whole | None = Field(
        None, ge=1, le=2 * MOST_TOKENS, description="Most tokens in one step.", examples=[8192]
    )
    gpu_memory_utilization: Real | None = Field(
        None, gt=0, le=1, description="Share of the GPU's memory one engine may take while awake.", examples=[0.8]
    )
    num_gpu_blocks_override: Whole | None = Field(
        None, ge=1, le=1_000_000_000, description="KV-cache blocks, whatever fits.", examples=[64]
    )
    block_size: Whole | None = Field(None, ge=1, le=65_536, description="Tokens per KV-cache block.", examples=[16])
    enforce_eager: Switch | None = Field(None, description="Run without CUDA graphs and compilation.", examples=[False])
    enable_prefix_caching: Switch | None = Field(
        None, description="Reuse the KV cache of equal prefixes.", examples=[True]
    )
    enable_chunked_prefill: Switch | None = Field(None, description="Split long prompts over steps.", examples=[True])
    async_scheduling: Switch | None = Field(
        None, description="Schedule step n+1 while step n runs; vLLM decides if absent.", examples=[True]
    )
    distributed_executor_backend: Literal["uni", "mp"] | None = Field(
        None, description="How the engine runs its workers; vLLM decides if absent.", examples=["mp"]
    )
    disable_custom_all_reduce: Switch | None = Field(None, description="Use NCCL for all-reduce.", examples=[False])
    trust_remote_code: Switch | None = Field(None, description="Run code that comes with the model.", examples=[False])
    seed: Whole | None = Field(None, ge=0, le=MOST_SEED, description="The engine's own random seed.", examples=[0])


# --- environment -----------------------------------------------------------------------------------------------------


class Environment(SpecModel):
    """Where an arm's engine runs."""

    variables: dict[
        Annotated[
            str, Field(max_length=128, pattern=r"^(VLLM|CUDA|NCCL|TORCH|OMP|MKL|GOMP|KMP|TOKENIZERS)_[A-Z0-9_]+$")
        ],
        Annotated[str, Field(max_length=1024)],
    ] = Field(
        {},
        max_length=64,
        description="Environment variables of the engine, taken literally. Those that load code, write files or reach "
        "other hosts are the operator's to allow.",
        examples=[{"OMP_NUM_THREADS": "1"}],
    )
    python: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_PATH,
        description="Name of another environment (its own vLLM, the same Ray and Python version) among those that the "
        "operator named in ROLLOUT_LAB_ENVIRONMENTS.",
        examples=["nightly"],
    )
