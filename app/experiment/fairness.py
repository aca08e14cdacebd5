"""Did the arms do the same work?"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from app.experiment.records import RequestRecord
from app.experiment.spec import SpecModel


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


class WorkDifference(SpecModel):
    """A way in which the arms' work differed."""

    what: str = Field(
        description="`samples`, `prompt_tokens`, `output_tokens`, `cached_tokens`, `finish_reasons`, or `shape`: "
        "equal in total, but not sample by sample.",
        examples=["output_tokens"],
    )
    values: dict[str, str] = Field(
        description="Total over the compared blocks, by arm.", examples=[{"sync": "16384", "async": "16400"}]
    )
    blocks: tuple[int, ...] = Field(description="Blocks in which they differ.", examples=[[0, 3]])


class Fairness(SpecModel):
    """Whether the arms did the same work, over the blocks that all arms finished."""

    equal: bool = Field(description="False where `differences` lists any.")
    blocks: int = Field(description="Blocks looked at.", examples=[6])
    prompt_tokens: dict[str, int] = Field(description="Prompt tokens by arm.", examples=[{"sync": 4096, "async": 4096}])
    output_tokens: dict[str, int] = Field(
        description="Output tokens by arm.", examples=[{"sync": 16384, "async": 16384}]
    )
    cached_tokens: dict[str, int | None] = Field(
        description="Prompt tokens from the prefix cache by arm; null where the engine does not say.",
        examples=[{"sync": 0, "async": 0}],
    )
    finish_reasons: dict[str, dict[str, int]] = Field(
        description="Samples by arm and finish reason.", examples=[{"sync": {"length": 192}, "async": {"length": 192}}]
    )
    identical_outputs_pct: float | None = Field(
        description="Samples whose token ids are the same in every arm, percent; for information, because equal "
        "work needs equal counts only. Null without a block or with one arm.",
        examples=[100.0],
    )
    differences: tuple[WorkDifference, ...] = Field(description="What was not equal; empty if all was.")


def work_of(records: Sequence[RequestRecord]) -> TrialWork:
    """What a trial did, independent of the order of its records."""
    ordered = sorted(records, key=lambda record: (record.prompt_index, record.sample_index, record.turn))
    cached = [record.cached_tokens for record in ordered]
    known = [tokens for tokens in cached if tokens is not None]
    shape = hashlib.sha256()
    for record in ordered:
        shape.update(
            f"{record.prompt_index} {record.sample_index} {record.turn} {record.prompt_tokens} "
            f"{record.output_tokens} {record.finish_reason}\n".encode()
        )
    return TrialWork(
        samples=len(ordered),
        prompt_tokens=sum(record.prompt_tokens for record in ordered),
        output_tokens=sum(record.output_tokens for record in ordered),
        cached_tokens=sum(known) if len(known) == len(cached) else None,
        finish_reasons=dict(sorted(Counter(record.finish_reason or "unknown" for record in ordered).items())),
        shape_sha256=shape.hexdigest(),
        output_hashes=b"".join(bytes.fromhex(record.output_sha256)[:8] for record in ordered),
    )


def check_fairness(blocks: Mapping[int, Mapping[str, TrialWork]], arms: Sequence[str]) -> Fairness:
    """Compare the arms' work block by block, over the blocks that all of `arms` finished."""
    raise NotImplementedError
