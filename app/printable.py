"""Text of any origin, made safe to print: a terminal obeys what it is sent."""

import re

# What moves the cursor, changes colours or answers for the user, and what turns the direction of reading.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_INVISIBLE_BUT_HARMLESS = frozenset("\n\t")


def printable(text: str, *, lines: bool = False) -> str:
    """The text with control characters as they would be written in source; ``lines`` keeps its lines and tabs."""

    def written(found: re.Match[str]) -> str:
        one = found.group()
        return one if lines and one in _INVISIBLE_BUT_HARMLESS else f"\\u{ord(one):04x}"

    return _CONTROLS.sub(written, text)
