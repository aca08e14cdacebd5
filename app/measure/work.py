"""The work one trial did."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from app.measure.records import RequestRecord


@dataclass(frozen=True, slots=True)
class Work:
    """The work one trial did, small enough to keep for every trial."""

    samples: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    finish_reasons: dict[str, int]  # reason -> samples
    shape_sha256: str  # of every sample's (prompt, sample, prompt tokens, output tokens, finish reason), in order
    output_hashes: bytes  # 8 bytes of every sample's output hash, in the same order


def sum_work(records: Sequence[RequestRecord]) -> Work:
    """What a trial did, independent of the order of its records."""
    ordered = sorted(records, key=attrgetter("prompt_index", "sample_index", "turn"))
    shape = "\n".join(
        f"{record.prompt_index} {record.sample_index} {record.turn} {record.prompt_tokens} "
        f"{record.output_tokens} {record.finish_reason}"
        for record in ordered
    )
    return Work(
        samples=len(ordered),
        prompt_tokens=sum(record.prompt_tokens for record in ordered),
        output_tokens=sum(record.output_tokens for record in ordered),
        cached_tokens=sum_if_known([record.cached_tokens for record in ordered]),
        finish_reasons=dict(sorted(Counter(record.finish_reason or "unknown" for record in ordered).items())),
        shape_sha256=hashlib.sha256(shape.encode()).hexdigest(),
        output_hashes=b"".join(bytes.fromhex(record.output_sha256)[:8] for record in ordered),
    )


def sum_if_known(values: Sequence[int | None]) -> int | None:
    """The sum, or None where one of the values is."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
