"""What one trial leaves behind."""

from dataclasses import dataclass, field
from enum import StrEnum

from app.spec.plan import PlannedTrial


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One generated sample. Times are seconds since the trial began, on the host's monotonic clock; None is unknown.

    ``arrived`` when the request should start, ``sent`` when its caller sent it, ``received`` when a server had it,
    ``prepared`` when that had its token ids, ``queued``, ``scheduled``, ``first_token`` and ``last_token`` by the
    engine core, ``left`` when the server gave the complete sample up, ``delivered`` when the caller had it.
    """

    request_id: str
    prompt_index: int
    sample_index: int
    replica: int
    turn: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    finish_reason: str | None
    output_sha256: str
    arrived_s: float
    sent_s: float
    received_s: float | None
    prepared_s: float | None
    queued_s: float | None
    scheduled_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    left_s: float | None
    delivered_s: float
    agent_worker: int | None = None  # which process called, where several do
    preemptions: int | None = None
    itl_ms: tuple[float, ...] | None = None  # one gap per token after the first, where the driver streams


@dataclass(frozen=True, slots=True)
class EngineSample:
    """The engine's state after one of its steps, as the front end saw it (seconds since the trial began)."""

    at_s: float
    running: int
    waiting: int
    kv_cache_usage_pct: float
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    drafts: int | None = None  # checked in the step, one of a request each; None where decoding is not speculative
    draft_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class HarnessUse:
    """What the harness itself cost during the timed part of a trial."""

    cpu_s: float  # CPU time of our own code between arrival and delivery, every output it handles included
    event_loop_lag_ms: float | None  # longest delay of a timer on the loop of a caller, the worst of several
    outputs: int  # objects handed over by the engine
    server_lag_ms: float | None = None  # the same of a server that the requests go through


@dataclass(frozen=True, slots=True)
class Spread:
    """A reading that was taken again and again over a trial."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A process on a GPU of the arm that is none of the experiment's; None where NVML does not say."""

    pid: int
    name: str  # empty where it cannot be read
    memory_mib: float | None  # the most it held
    sm_pct: float | None  # of the GPU's SM time over the trial
    memory_busy_pct: float | None  # share of the trial in which it had the GPU's memory controller at work
    passing: bool  # it came or went while the trial ran


class Unseen(StrEnum):
    """What NVML may withhold."""

    PROCESSES = "processes"  # which there are on the GPU
    SHARES = "shares"  # what they take of it
    HELD_BACK = "held_back"  # for how long power or heat slowed it


@dataclass(frozen=True, slots=True)
class GpuConditions:
    """One GPU over one trial; None where it cannot be read."""

    gpu: str  # as CUDA_VISIBLE_DEVICES names it
    util_pct: float | None = None
    sm_clock_mhz: Spread | None = None
    memory_clock_mhz: Spread | None = None
    temperature_c: Spread | None = None
    power_w: float | None = None  # mean, from the energy counter
    energy_j: float | None = None
    memory_used_mib: float | None = None  # the most
    pcie_mb_s: Spread | None = None  # both ways, of all processes: NVML does not tell them apart
    held_back_pct: dict[str, float] = field(default_factory=dict)  # share of the trial, by reason
    neighbours: tuple[Neighbour, ...] = ()
    unseen: dict[Unseen, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True)
class ProcessTreatment:
    """How the host treats one process of the arm's engine."""

    role: str  # what vLLM calls it, or `arm` for the process that drives it
    niceness: int
    cores: str  # it may run on: `0-7`


@dataclass(frozen=True, slots=True)
class Conditions:
    """The host around one trial; None where it cannot be read."""

    load_before: float | None = None  # runnable processes, 1-minute average
    load_after: float | None = None
    other_cpu_pct: float | None = None  # CPU taken by processes that are none of the experiment's, of all cores
    idle_arms_cpu_pct: float | None = None  # CPU taken by engines of other arms, of all cores
    stopped_pct: float | None = None  # share of the trial in which a process of the engine was stopped (SIGSTOP)
    engine_processes: tuple[ProcessTreatment, ...] = ()
    engine_changes: tuple[str, ...] = ()  # in what the engine, started anew, is not what it was at its first start
    gpu_util_pct: float | None = None  # mean of the arm's GPUs, as are clocks and temperature
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None  # of all the arm's GPUs together, as are energy and memory
    energy_j: float | None = None
    memory_used_mib: float | None = None
    gpus: tuple[GpuConditions, ...] = ()


class TrialState(StrEnum):
    """How a trial ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One trial, done. A failed one keeps what it had and says why."""

    planned: PlannedTrial
    state: TrialState
    started_at: float  # seconds since the epoch
    wall_s: float
    records: tuple[RequestRecord, ...] = ()
    timeline: tuple[EngineSample, ...] = ()
    harness: HarnessUse | None = None
    conditions: Conditions | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StartedArm:
    """What an arm's engine turned out to be, read back after its start."""

    arm: str
    config: dict[str, object]  # the resolved configuration, flat: dotted key -> JSON value
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, object] = field(default_factory=dict)
    start_s: float = 0.0
    vocab_size: int = 0
    host: str = ""
    pids: tuple[int, ...] = ()  # on that host: of the actor and of every process its engine started
    can_sleep: bool = False
    simulated: bool = False
