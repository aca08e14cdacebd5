"""Text of any origin, made safe to print."""

import pytest

from app.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sync against async", "sync against async"),
        ("größer – 東京 🙂", "größer – 東京 🙂"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\x9b31m", "\\u009b31m"),
        ("a\nb\tc\r", "a\\u000ab\\u0009c\\u000d"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x00\x7f\x08", "\\u0000\\u007f\\u0008"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_may_stay_lines() -> None:
    assert printable("a\n\tb\x1b\r\n", lines=True) == "a\n\tb\\u001b\\u000d\n"
