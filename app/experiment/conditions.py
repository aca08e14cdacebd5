"""Was the host left alone, and does the harness stay out of its own measurements?"""

from enum import StrEnum

from pydantic import Field

from app.experiment.spec import SpecModel


class WarningCode(StrEnum):
    """What a reader of the results should know."""

    SIMULATED = "simulated"
    DROPPED_BLOCKS = "dropped_blocks"
    STOPPED_EARLY = "stopped_early"
    NO_WARMUP = "no_warmup"
    SEVERAL_CANDIDATES = "several_candidates"
    HARNESS_SHARE = "harness_share"
    EVENT_LOOP_LAG = "event_loop_lag"
    DISTURBED_HOST = "disturbed_host"
    THROTTLED = "throttled"
    CACHED_TOKENS = "cached_tokens"
    CACHED_TOKENS_UNKNOWN = "cached_tokens_unknown"
    MISSING_PERCENTILES = "missing_percentiles"
    MISSING_TIMES = "missing_times"
    WITHIN_NOISE_FLOOR = "within_noise_floor"


class ResultWarning(SpecModel):
    """Something that limits what the results mean."""

    code: WarningCode = Field(description="Machine-readable kind.", examples=["disturbed_host"])
    detail: str = Field(
        description="What happened.", examples=["Other processes took up to 48 % of the CPUs during trials of async."]
    )
    arm: str | None = Field(None, description="Arm concerned, if it is one.", examples=["async"])
