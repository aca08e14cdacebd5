"""From values to pixels, and which values to name on an axis."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Scale(Protocol):
    """A map from values to pixels."""

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        ...

    def ticks(self, most: int) -> list[float]:
        """Round values along it."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal differences are equally long."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Multiples of 1, 2 or 5."""
        step = round_step((self.high - self.low) / max(most, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """Equal ratios are equally long."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        span = math.log(self.high / self.low) or 1.0
        return self.start + math.log(max(value, self.low) / self.low) / span * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """1, 2 and 5 times powers of ten, or powers of ten alone where there are many."""
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            found = [
                factor * 10.0**exponent
                for exponent in exponents
                for factor in factors
                if self.low * 0.999 <= factor * 10.0**exponent <= self.high * 1.001
            ]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least so large."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least * 0.999), 10 * power)


def spread_around(values: Iterable[float], *, share: float = 0.08) -> tuple[float, float]:
    """A range that holds the values with some room."""
    found = [value for value in values if math.isfinite(value)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    room = (high - low) * share or abs(high) * share or 1.0
    return low - room, high + room


def write_tick(value: float) -> str:
    """A tick's label."""
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{value:,.0f}" if size >= 10 else f"{value:.6g}"
    return text.replace("-", "−")
