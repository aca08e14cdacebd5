"""One trial's request records as columns, so that a million of them stay fast."""

from collections.abc import Callable, Iterable, Sequence
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
    received_s: Floats
    prepared_s: Floats
    queued_s: Floats
    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    left_s: Floats
    delivered_s: Floats
    preemptions: Floats
    itl_ms: Floats | None  # the gaps of all samples; None unless every sample was streamed

    def __len__(self) -> int:
        return len(self.prompt_index)

    @classmethod
    def of(cls, records: Sequence[RequestRecord]) -> "Columns":
        """Turn records into columns."""
        return cls.read(
            lambda name: list(map(attrgetter(name), records)), pool_gaps(record.itl_ms for record in records)
        )

    @classmethod
    def read(cls, values: Callable[[str], npt.ArrayLike], itl_ms: Floats | None = None) -> "Columns":
        """Columns from whatever holds them by name, None for what is unknown."""

        def whole(name: str) -> Integers:
            return np.asarray(values(name), dtype=np.int64)

        def floats(name: str) -> Floats:
            return np.asarray(values(name), dtype=np.float64)  # None becomes NaN

        return cls(
            prompt_index=whole("prompt_index"),
            prompt_tokens=whole("prompt_tokens"),
            output_tokens=whole("output_tokens"),
            cached_tokens=floats("cached_tokens"),
            arrived_s=floats("arrived_s"),
            sent_s=floats("sent_s"),
            received_s=floats("received_s"),
            prepared_s=floats("prepared_s"),
            queued_s=floats("queued_s"),
            scheduled_s=floats("scheduled_s"),
            first_token_s=floats("first_token_s"),
            last_token_s=floats("last_token_s"),
            left_s=floats("left_s"),
            delivered_s=floats("delivered_s"),
            preemptions=floats("preemptions"),
            itl_ms=itl_ms,
        )


def pool_gaps(gaps: Iterable[tuple[float, ...] | None]) -> Floats | None:
    """The gaps of all samples; None unless every sample was streamed."""
    streamed: list[tuple[float, ...]] = []
    for one in gaps:
        if one is None:
            return None
        streamed.append(one)
    return np.fromiter(chain.from_iterable(streamed), dtype=np.float64)
