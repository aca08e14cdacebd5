"""Where a request's time goes: parts between the moments of its record, which add up to `delivered - arrived`.

A moment that nobody can tell, because a way of driving has no such place or a server does not say, is not made up: the
parts around it are one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from app.measure.columns import Columns, Floats


class TimePart(StrEnum):
    """What a request waits for between two moments that follow each other."""

    CLIENT_QUEUE = "client queue"
    TRANSPORT_OUT = "transport out"
    PREPARATION = "preparation"
    HAND_IN = "hand-in"
    ENGINE_QUEUE = "engine queue"
    PREFILL = "prefill"
    DECODE = "decode"
    HAND_OVER = "hand-over"
    TRANSPORT_BACK = "transport back"


# Fields of a record, in the order in which a request meets them: a part lies between each two.
MOMENTS = (
    "arrived_s",
    "sent_s",
    "received_s",
    "prepared_s",
    "queued_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
    "left_s",
    "delivered_s",
)


@dataclass(frozen=True, slots=True)
class Span:
    """A part, or several that cannot be told apart."""

    parts: tuple[TimePart, ...]
    begin: str  # the moments it lies between
    end: str
    unknown: tuple[str, ...]  # the moments within it

    @property
    def name(self) -> str:
        """The part's name, or those of all it holds."""
        return " + ".join(self.parts)

    @property
    def reason(self) -> str | None:
        """Why it is not one part alone."""
        if not self.unknown:
            return None
        names = " and ".join(moment.removesuffix("_s") for moment in self.unknown)
        return f"nothing tells when a request was {names}"


def find_spans(unknown: Collection[str]) -> tuple[Span, ...]:
    """The parts of a request of which these moments are unknown. `arrived`, `sent` and `delivered` never are."""
    known = [place for place, moment in enumerate(MOMENTS) if moment not in unknown]
    return tuple(
        Span(
            parts=tuple(TimePart)[begin:end],
            begin=MOMENTS[begin],
            end=MOMENTS[end],
            unknown=MOMENTS[begin + 1 : end],
        )
        for begin, end in pairwise(known)
    )


def split_time(columns: Columns) -> tuple[tuple[Span, Floats], ...]:
    """Every sample's time in each part, seconds; their sum is `delivered - arrived`.

    A moment that one sample lacks is unknown for all of them, so that a part is the same thing in each. A part that
    ends before it begins, as moments of two clocks may have it, is negative here.
    """
    unknown = [moment for moment in MOMENTS if np.isnan(getattr(columns, moment)).any()]
    return tuple((span, getattr(columns, span.end) - getattr(columns, span.begin)) for span in find_spans(unknown))
