"""One trial's request records as columns, so that a million of them stay fast."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from app.measure.records import RequestRecord

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """One entry per sample; NaN where a value is unknown. Times in seconds since the trial began."""

    prompt_index: Integers
    prompt_tokens: Integers
    output_tokens: Integers
    cached_tokens: Floats
    arrived_s: Floats
    sent_s: Floats
    queued_s: Floats
    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    delivered_s: Floats
    preemptions: Floats
    itl_ms: Floats | None  # the gaps of all samples; None unless every sample was streamed

    def __len__(self) -> int:
        return len(self.prompt_index)

    @classmethod
    def of(cls, records: Sequence[RequestRecord]) -> "Columns":
        """Turn records into columns."""

        def integers(name: str) -> Integers:
            return np.fromiter(map(attrgetter(name), records), dtype=np.int64, count=len(records))

        def floats(name: str) -> Floats:
            # Unlike fromiter, array turns None into NaN.
            return np.array(list(map(attrgetter(name), records)), dtype=np.float64)

        return cls(
            prompt_index=integers("prompt_index"),
            prompt_tokens=integers("prompt_tokens"),
            output_tokens=integers("output_tokens"),
            cached_tokens=floats("cached_tokens"),
            arrived_s=floats("arrived_s"),
            sent_s=floats("sent_s"),
            queued_s=floats("queued_s"),
            scheduled_s=floats("scheduled_s"),
            first_token_s=floats("first_token_s"),
            last_token_s=floats("last_token_s"),
            delivered_s=floats("delivered_s"),
            preemptions=floats("preemptions"),
            itl_ms=_pooled(record.itl_ms for record in records),
        )


def _pooled(gaps: Iterable[tuple[float, ...] | None]) -> Floats | None:
    streamed: list[tuple[float, ...]] = []
    for one in gaps:
        if one is None:
            return None
        streamed.append(one)
    return np.fromiter(chain.from_iterable(streamed), dtype=np.float64)
