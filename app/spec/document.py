"""YAML or JSON text to plain values, with the line every value came from.

YAML is read by the core schema of YAML 1.2, so that an arm may be called `on` and `1e3` is a number, and without what
makes it dangerous or surprising: aliases, tags, repeated keys, several documents.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from app.errors import FieldError, InvalidInput
from app.format import clip, quoted

MAX_DEPTH = 50
MAX_VALUES = 200_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE_SCHEMA: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = (
    (re.compile(r"(~|null|Null|NULL|)"), lambda _: None),
    (re.compile(r"(true|True|TRUE)"), lambda _: True),
    (re.compile(r"(false|False|FALSE)"), lambda _: False),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]{1,21}|0x[0-9a-fA-F]{1,16}"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text."""

    value: object
    lines: dict[str, int] = field(default_factory=dict)  # JSON pointer -> line, from 1

    def line_of(self, pointer: str) -> int | None:
        """Line of the value at ``pointer``, or of the nearest value around it that exists."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer)


def escape(key: str) -> str:
    """One key as a step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def load_json(text: bytes | str) -> object:
    """Parse JSON; raise InvalidInput with the line of what is wrong."""
    text = _decode(text)
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        raise _locate(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from None
    except _RepeatedKey as error:
        load_yaml(text)  # knows the line
        raise _locate(None, str(error)) from None
    except RecursionError:
        raise _locate(None, f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:  # thousands of digits
        raise _locate(None, "a number has too many digits") from None


def load_yaml(text: bytes | str) -> Document:
    """Parse YAML; raise InvalidInput with the line of what is wrong."""
    text = _decode(text)
    try:
        return _Reader(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.context, error.problem)))
        raise _locate(mark.line + 1 if mark else None, f"not YAML: {said[:200]}") from None
    except yaml.YAMLError as error:
        raise _locate(None, f"not YAML: {str(error)[:200]}") from None


def load(text: bytes | str) -> Document:
    """Parse text that may be either: JSON if it can be, for the sake of JSON's own escapes; else YAML."""
    text = _decode(text)
    if text.lstrip()[:1] not in ("{", "["):
        return load_yaml(text)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return load_yaml(text)
    value = load_json(text)
    try:
        return Document(value, load_yaml(text).lines)
    except InvalidInput:
        return Document(value)


def _locate(line: int | None, detail: str) -> InvalidInput:
    said = detail if line is None else f"line {line}: {detail}"
    return InvalidInput(said, (FieldError("", said),))


def _decode(text: bytes | str) -> str:
    if isinstance(text, bytes):
        try:
            return _decode(text.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = text[: error.start].count(b"\n") + 1
            raise _locate(line, "not UTF-8") from None
    for index, character in enumerate(text) if not text.isprintable() else ():
        if character < " " and character not in "\t\n\r":
            raise _locate(text.count("\n", 0, index) + 1, f"control character U+{ord(character):04X}")
        if "\ud800" <= character <= "\udfff":
            raise _locate(text.count("\n", 0, index) + 1, "half a surrogate pair")
    return text


class _RepeatedKey(Exception):
    pass


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKey(f"key {quoted(key)} is given twice")
        found[key] = value
    return found


class _Reader:
    """Builds values from the parser's events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._lines: dict[str, int] = {}
        self._values = 0

    def document(self) -> Document:
        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Document(None)
        value = self._value(next(self._events), "", 0)
        next(self._events)  # the document's end
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _locate(after.start_mark.line + 1, "a second document begins; give one")
        return Document(value, self._lines)

    def _value(self, event: Any, pointer: str, depth: int) -> object:
        line = event.start_mark.line + 1
        self._check(event, line, depth)
        self._lines.setdefault(pointer, line)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(pointer, depth)
        return self._mapping(pointer, depth)

    def _check(self, event: Any, line: int, depth: int) -> None:
        self._values += 1
        if isinstance(event, yaml.AliasEvent):
            raise _locate(line, f"alias *{clip(str(event.anchor))}: write the value out")
        if event.anchor is not None:
            raise _locate(line, f"anchor &{clip(event.anchor)}: there are no aliases here, leave it out")
        if event.tag is not None:
            raise _locate(line, f"tag {clip(event.tag)}: plain values only")
        if depth > MAX_DEPTH:
            raise _locate(line, f"nested deeper than {MAX_DEPTH} levels")
        if self._values > MAX_VALUES:
            raise _locate(line, f"more than {MAX_VALUES} values")

    def _sequence(self, pointer: str, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, f"{pointer}/{len(items)}", depth + 1))
        return items

    def _mapping(self, pointer: str, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            self._check(event, line, depth)
            if not isinstance(event, yaml.ScalarEvent):
                raise _locate(line, "a key must be text")
            key: str = event.value
            if key in found:
                raise _locate(line, f"key {quoted(key)} is given twice")
            below = f"{pointer}/{escape(key)}"
            self._lines[below] = line
            found[key] = self._value(next(self._events), below, depth + 1)
        return found


def _scalar(event: Any, line: int) -> object:
    text: str = event.value
    if not event.implicit[0]:  # quoted
        return text
    for pattern, convert in _CORE_SCHEMA:
        if pattern.fullmatch(text):
            try:
                return convert(text)
            except ValueError:
                raise _locate(line, "a number has too many digits") from None
    return text
