"""YAML and JSON texts."""

import json
import math
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.spec.document import MAX_DEPTH, MAX_VALUES, load, load_json, load_yaml

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs", "Cc"))),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs", "Cc"))), below, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: key 'a' is given twice"),
        ("a:\n  b: 1\n  b: 2", "line 3: key 'b' is given twice"),
        ("a: &x [1]\nb: *x", "line 1: anchor &x: there are no aliases here, leave it out"),
        ("a: *x", "line 1: alias *x: write the value out"),
        ("a: 1\nb: !!python/object:os.system {}", "line 2: tag tag:yaml.org,2002:python/object:os.system"),
        ("a: !secret 1", "line 1: tag !secret"),
        ("a: 1\nb: \x00", "line 2: control character U+0000"),
        ("a: \x1b[2J", "line 1: control character U+001B"),
        ("a: 1\n---\nb: 1", "line 2: a second document begins; give one"),
        ("? [1, 2]\n: 3", "line 1: a key must be text"),
        ("a: 1\n\tb: 2", "line 2: not YAML: while scanning"),
        ("a: [1,\nb: 2", "line 3: not YAML: while parsing a flow sequence"),
        ("a: 1" + "1" * 5000, "line 1: a number has too many digits"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), f"line 1: nested deeper than {MAX_DEPTH} levels"),
        ("[" * 100_000, "line 1: not YAML"),
    ],
)
def test_bad_yaml_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_yaml(text)
    assert caught.value.detail.startswith(complaint)
    assert caught.value.errors[0].pointer == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1,\n "b": 2,\n "b": 3}', "line 3: key 'b' is given twice"),
        ('{"a": 1,\n "b" 2}', "line 2: not JSON: Expecting ':' delimiter (column 6)"),
        ("[" * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
        ('{"a": ' + "9" * 5000 + "}", "a number has too many digits"),
        ('{"a": "\x00"}', "line 1: control character U+0000"),
        ("", "line 1: not JSON: Expecting value"),
    ],
)
def test_bad_json_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_json(text)
    assert caught.value.detail.startswith(complaint)


def test_bytes_that_are_not_utf_8_are_refused_with_their_line() -> None:
    with pytest.raises(InvalidInput, match="line 2: not UTF-8"):
        load_yaml(b"a: 1\nb: \xff")


def test_aliases_cannot_blow_a_small_text_up() -> None:
    bomb = "a0: &a0 [x]\n" + "\n".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(20))
    with pytest.raises(InvalidInput, match="line 1: anchor"):
        load_yaml(bomb)


def test_a_text_of_too_many_values_is_refused_soon() -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidInput, match=f"more than {MAX_VALUES} values"):
        load_yaml("[" + "1," * 400_000 + "]")
    assert time.perf_counter() - began < 10


def test_yaml_scalars_follow_the_core_schema() -> None:
    text = "[on, yes, 2026-01-02, 1e3, -.5, 0x10, 0o17, 12:30, 1_000, ~, null, '1', true, .inf, -.inf]"
    assert load_yaml(text).value == [
        "on", "yes", "2026-01-02", 1000.0, -0.5, 16, 15, "12:30", "1_000", None, None, "1", True, math.inf, -math.inf,
    ]  # fmt: skip


def test_lines_are_known_by_pointer() -> None:
    document = load_yaml("model:\n  preset: x\narms:\n  - name: a\n    a/b: 1\n  - name: b\n")
    assert document.line_of("/model/preset") == 2
    assert document.line_of("/arms/1/name") == 6
    assert document.line_of("/arms/0/a~1b") == 5
    assert document.line_of("/arms/1/profile") == 6
    assert document.line_of("/nowhere") == 1


def test_an_empty_text_holds_nothing() -> None:
    assert load_yaml("# only a comment\n").value is None
    assert load("").value is None


@given(PLAIN)
def test_json_text_means_the_same_read_as_either(value: object) -> None:
    document = {"value": value}
    text = json.dumps(document)
    assert load(text).value == document
    assert load_json(text) == document


@given(PLAIN)
def test_lines_are_found_in_json_too(value: object) -> None:
    text = json.dumps({"first": 1, "second": value}, indent=1, ensure_ascii=False)
    assert load(text).line_of("/second") in (3, None)


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    for read in (load, load_json, load_yaml):
        with suppress(InvalidInput):
            read(text)
