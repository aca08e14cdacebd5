"""What a user may ask for."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from app.spec.engine import EngineSettings, Environment, Model
from app.spec.frozen import SpecModel
from app.spec.values import (
    LONGEST_S,
    LONGEST_WORD,
    MOST_AGENT_WORKERS,
    MOST_CALLS,
    MOST_SEED,
    MOST_TRIALS,
    Only1,
    OnlyFalse,
    Real,
    Switch,
    Whole,
)
from app.spec.workload import Arrival, Workload

# --- driver --------------------------------------------------------------------------------------------------------


class Api(StrEnum):
    """Which interface of vLLM a driver talks to."""

    LLM = "llm"
    ASYNC_LLM = "async_llm"
    SIMULATED = "simulated"


class EngineProcess(StrEnum):
    """Where vLLM's engine core runs."""

    IN_PROCESS = "in_process"
    SEPARATE = "separate"


class OutputKind(StrEnum):
    """vLLM's ``RequestOutputKind``: what a request delivers, and how often."""

    FINAL_ONLY = "final_only"
    DELTA = "delta"
    CUMULATIVE = "cumulative"


class DriverCaller(StrEnum):
    """Who calls `AsyncLLM`, and through what."""

    DIRECT = "direct"
    RAY = "ray"
    HTTP = "http"


class Samples(StrEnum):
    """How several samples of one prompt are asked for."""

    SEPARATE_REQUESTS = "separate_requests"
    N_PARAMETER = "n_parameter"


class _VllmDriver(SpecModel):
    samples: Samples = Field(
        Samples.SEPARATE_REQUESTS,
        description="One request per sample, or one per prompt with `n` samples.",
        examples=["n_parameter"],
    )
    detokenize: Switch = Field(False, description="Let vLLM turn token ids into text.", examples=[True])
    logprobs: Whole | None = Field(
        None, ge=0, le=1000, description="Log probabilities per token, as vLLM's `logprobs`.", examples=[1]
    )


class LlmDriver(_VllmDriver):
    """The synchronous `LLM`: the whole batch goes in, the call returns when the last sample is done."""

    api: Literal[Api.LLM] = Field(Api.LLM, description="`llm`", examples=["llm"])
    engine_process: EngineProcess = Field(
        EngineProcess.SEPARATE,
        description="Engine core in a process of its own (vLLM's default) or in the caller's.",
        examples=["in_process"],
    )


class AsyncLlmDriver(_VllmDriver):
    """The asynchronous `AsyncLLM`: one task per request; its engine core always has a process of its own."""

    api: Literal[Api.ASYNC_LLM] = Field(Api.ASYNC_LLM, description="`async_llm`", examples=["async_llm"])
    output_kind: OutputKind = Field(OutputKind.FINAL_ONLY, description="vLLM's RequestOutputKind.", examples=["delta"])
    caller: DriverCaller = Field(
        DriverCaller.DIRECT,
        description="Who calls the engine: tasks in its own process, agent workers in processes of their own through "
        "an actor of Ray, or HTTP clients of `vllm serve`.",
        examples=["ray"],
    )
    agent_workers: Whole | None = Field(
        None,
        ge=1,
        le=MOST_AGENT_WORKERS,
        description="With caller `ray`: processes that call, each for an equal part of the samples; 8 if absent.",
        examples=[8],
    )
    calls_per_actor: Whole | None = Field(
        None,
        ge=1,
        le=MOST_CALLS,
        description="With caller `ray`: calls in flight at the server's actor at most, Ray's `max_concurrency`; 1000 "
        "if absent.",
        examples=[1000],
    )
    api_server_count: Whole | None = Field(
        None, ge=1, le=64, description="With caller `http`: API servers of `vllm serve`; 1 if absent.", examples=[2]
    )


class SimulatedDriver(SpecModel):
    """No engine: timings come from here. For tests, demonstrations of pages and power studies only."""

    api: Literal[Api.SIMULATED] = Field(Api.SIMULATED, description="`simulated`", examples=["simulated"])
    seconds_per_token: Real = Field(0.01, gt=0, le=3600, description="Time of one decode step, s.", examples=[0.012])
    prefill_s: Real = Field(
        0.0, ge=0, le=LONGEST_S, description="Time before the first token of every request, s.", examples=[0.1]
    )
    noise_pct: Real = Field(
        0.0, ge=0, lt=50, description="Standard deviation of a trial's speed, percent.", examples=[2.0]
    )
    drift_pct_per_slot: Real = Field(
        0.0,
        ge=-100,
        le=1000,
        description="The host gets slower by this much with every trial, percent.",
        examples=[0.5],
    )
    start_s: Real = Field(0.0, ge=0, le=LONGEST_S, description="Real seconds the start takes.", examples=[1.5])
    pace: Real = Field(
        0.0, ge=0, le=1000, description="Real seconds per simulated second; 0 runs at once.", examples=[1.0]
    )
    failing_slots: tuple[Annotated[Whole, Field(ge=0, lt=MOST_TRIALS)], ...] = Field(
        (), max_length=MOST_TRIALS, description="Trials that fail, by slot, from 0.", examples=[[3, 4]]
    )


DriverSettings = Annotated[LlmDriver | AsyncLlmDriver | SimulatedDriver, Field(discriminator="api")]


_DRIVERS: tuple[type[SpecModel], ...] = (LlmDriver, AsyncLlmDriver, SimulatedDriver)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


def _overrides() -> type[SpecModel]:
    """Every field of every driver under its own name, type and limits; each may be absent, and none is filled in."""
    fields: dict[str, Any] = {
        "api": (
            Annotated[
                Api, Field(description="Interface of vLLM.", examples=["async_llm"], json_schema_extra=_without_default)
            ],
            None,
        )
    }
    for driver in _DRIVERS:
        for name, field in driver.model_fields.items():
            if name == "api":
                continue
            takers = [one.model_fields["api"].default.value for one in _DRIVERS if name in one.model_fields]
            said = f"{field.description} For {' and '.join(f'`{api}`' for api in takers)}."
            about = Field(description=said, examples=field.examples, json_schema_extra=_without_default)
            fields[name] = (Annotated[field.annotation, *field.metadata, about], None)
    return create_model(
        "DriverOverrides",
        __base__=SpecModel,
        __doc__="Driver settings of one arm; what is absent comes from its profile.",
        **fields,
    )


if TYPE_CHECKING:

    class DriverOverrides(SpecModel):
        """Driver settings of one arm."""
else:
    DriverOverrides = _overrides()


# --- arms, plan, decision, limits ----------------------------------------------------------------------------------

Name = Annotated[
    str,
    Field(
        min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$", description="Printable text.", examples=["async"]
    ),
]


class Arm(SpecModel):
    """One way of driving vLLM."""

    name: Name
    profile: str = Field(
        max_length=LONGEST_WORD, description="Settings to start from (GET /v1/profiles).", examples=["vllm-async"]
    )
    engine: EngineSettings = Field(
        EngineSettings(), description="Engine settings of this arm alone.", examples=[{"max_num_seqs": 64}]
    )
    driver: DriverOverrides = Field(
        DriverOverrides(), description="Driver settings of this arm alone.", examples=[{"output_kind": "delta"}]
    )
    environment: Environment = Field(
        Environment(),
        description="Environment of this arm's engine.",
        examples=[{"variables": {"OMP_NUM_THREADS": "1"}}],
    )
    arrival: Arrival | None = Field(
        None,
        description="When the requests of this arm start; as in workload.arrival if absent.",
        examples=[{"pattern": "batch", "size": 64}],
    )


class Residency(StrEnum):
    """Whether engines stay up between trials."""

    AUTO = "auto"
    RESIDENT = "resident"
    RESTART = "restart"


class PlanSettings(SpecModel):
    """How often and in which order the arms run."""

    blocks: Whole = Field(6, ge=1, le=200, description="Blocks: one trial of every arm each.", examples=[6])
    warmup_trials: Whole = Field(
        1, ge=0, le=20, description="Trials of every arm that are run first and thrown away.", examples=[1]
    )
    seed: Whole = Field(
        0, ge=0, le=MOST_SEED, description="Seed of prompts, lengths, sampling and order.", examples=[0]
    )
    residency: Residency = Field(
        Residency.AUTO, description="Whether engines stay up between trials.", examples=["restart"]
    )
    starts: Whole = Field(
        1,
        ge=1,
        le=50,
        description="Starts of every engine: the blocks fall into so many groups of near equal size, each with fresh "
        "engines. With several, the verdict speaks of the settings and not of two processes.",
        examples=[4],
    )
    reset_prefix_cache: Switch = Field(True, description="Empty the prefix cache before every trial.", examples=[True])
    looks: tuple[Annotated[Whole, Field(ge=2)], ...] = Field(
        (),
        max_length=200,
        description="Blocks after which the verdict may be read early and the experiment ended.",
        examples=[[4, 6]],
    )


class Parity(StrEnum):
    """What to do about differences nobody declared."""

    FLAG = "flag"
    STRICT = "strict"


class ServiceLevels(SpecModel):
    """Limits a sample must meet to count towards `request_goodput`."""

    ttft_ms: Real | None = Field(
        None, gt=0, le=1000 * LONGEST_S, description="Time to first token, ms from `arrived`.", examples=[500]
    )
    tpot_ms: Real | None = Field(
        None, gt=0, le=1000 * LONGEST_S, description="Time per output token, ms.", examples=[50]
    )
    e2el_ms: Real | None = Field(
        None, gt=0, le=1000 * LONGEST_S, description="End-to-end latency, ms from `arrived`.", examples=[30000]
    )


class Decision(SpecModel):
    """How a verdict is reached."""

    alpha: Real = Field(
        0.05, gt=0, lt=0.5, description="Level of the test; the interval has 1 - alpha.", examples=[0.05]
    )
    margin_pct: Real = Field(
        2.0, gt=0, lt=100, description="Differences within ± this count as the same, percent.", examples=[2.0]
    )
    parity: Parity = Field(
        Parity.FLAG, description="`strict` fails the experiment before the first trial.", examples=["strict"]
    )
    service_levels: ServiceLevels = Field(
        ServiceLevels(), description="Limits for `request_goodput`.", examples=[{"ttft_ms": 500}]
    )


class Limits(SpecModel):
    """When to give up, and who goes first."""

    timeout_s: Real = Field(7200, gt=0, le=LONGEST_S, description="Longest time from start to end, s.", examples=[7200])
    stall_timeout_s: Real = Field(
        300, gt=0, le=LONGEST_S, description="Longest time without a new token during a trial, s.", examples=[300]
    )
    retry_on_loss: Switch = Field(
        False, description="Queue the experiment again when its worker or Ray is lost.", examples=[True]
    )
    priority: Whole = Field(0, ge=-100, le=100, description="Higher runs first.", examples=[10])


class Sweep(SpecModel):
    """Values to vary; this version takes none."""


class Experiment(SpecModel):
    """What a user submits: a model, a workload, arms, a plan."""

    name: str = Field(
        "", max_length=200, pattern=r"^[^\x00]*$", description="For people.", examples=["sync against async"]
    )
    labels: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=200)]] = Field(
        {}, max_length=32, description="For filters.", examples=[{"suite": "nightly"}]
    )
    model: Model = Field(description="The model every arm runs.", examples=[{"preset": "tiny-qwen2"}])
    engine: EngineSettings = Field(
        EngineSettings(), description="Engine settings common to all arms.", examples=[{"tensor_parallel_size": 1}]
    )
    workload: Workload = Field(
        Workload(), description="The requests of one trial.", examples=[{"samples_per_prompt": 8}]
    )
    arms: tuple[Arm, ...] = Field(
        min_length=1,
        max_length=64,
        description="The ways of driving vLLM to compare.",
        examples=[[{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}]],
    )
    baseline: str | None = Field(
        None,
        max_length=LONGEST_WORD,
        description="Arm the others are compared with; the first if absent.",
        examples=["sync"],
    )
    calibrate: Switch = Field(
        False,
        description="Run the one arm against itself: an A/A experiment. Its noise is kept, and later results of that "
        "arm are judged beside it.",
        examples=[True],
    )
    replicas: Only1 = Field(1, description="Engines per arm; this version runs one.", examples=[1])
    plan: PlanSettings = Field(
        PlanSettings(), description="How often and in which order the arms run.", examples=[{"blocks": 6}]
    )
    decision: Decision = Field(Decision(), description="How a verdict is reached.", examples=[{"margin_pct": 2.0}])
    limits: Limits = Field(Limits(), description="When to give up, and who goes first.", examples=[{"timeout_s": 7200}])
    explain: OnlyFalse = Field(False, description="This version does not split a gap into causes.", examples=[False])
    sweep: Sweep = Field(Sweep(), description="Values to vary; this version takes none.", examples=[{}])

    @property
    def baseline_name(self) -> str:
        """Name of the arm the others are compared with."""
        return self.baseline or self.arms[0].name
