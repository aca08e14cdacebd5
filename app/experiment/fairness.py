"""Did the arms do the same work?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialWork:
    """The work one trial did, small enough to keep for every trial."""

    samples: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    finish_reasons: dict[str, int]  # reason -> samples
    shape_sha256: str  # of every sample's (prompt, sample, prompt tokens, output tokens, finish reason), in order
    output_hashes: bytes  # 8 bytes of every sample's output hash, in the same order
