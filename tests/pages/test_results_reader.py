"""Results of any version are read: what is known is shown, what is not is said."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.pages.results_reader import read_results
from app.spec.lifecycle import Status
from app.store import experiments
from tests.support.stories import Lab

KNOWN = {"experiment_id": "e", "status": "succeeded", "complete": True, "simulated": False}


@pytest.fixture(scope="module")
def document(lab: Lab) -> dict[str, Any]:
    """What a finished experiment stores."""
    results = experiments.get(lab.db, lab["dropped"]).results
    assert results is not None
    return results


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the keys of a document are."""
    found: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        for key, below in value.items():
            found += [(*path, key), *places(below, (*path, key))]
    elif isinstance(value, list):
        for index, below in enumerate(value[:2]):
            found += places(below, (*path, index))
    return found


def parent(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


def test_results_of_the_first_method_are_read_whole(document: dict[str, Any]) -> None:
    reading = read_results(document | {"method": {"name": "paired-log-t", "version": 1}}, KNOWN)
    assert (reading.notes, reading.method) == ((), "paired-log-t 1")


def test_results_of_this_version_are_read_whole(document: dict[str, Any]) -> None:
    reading = read_results(document, KNOWN)
    assert reading.notes == ()
    assert reading.method == "paired-log-t 2"
    assert reading.results.status is Status.SUCCEEDED


def test_nothing_at_all_is_still_results() -> None:
    reading = read_results({}, KNOWN)
    assert reading.results.comparisons == ()
    assert reading.results.summary == ""
    assert "lack what this version expects" in reading.notes[0]
    assert reading.method == "a method that is not named"


def test_unknown_keys_are_named_and_left_out(document: dict[str, Any]) -> None:
    newer = document | {"waterfall": {}, "method": {"name": "paired-log-t", "version": 3}}
    reading = read_results(newer, KNOWN)
    assert "waterfall" in reading.notes[0]
    assert reading.method == "paired-log-t 3"
    assert len(reading.results.comparisons) == len(document["comparisons"])


def test_a_comparison_with_a_word_nobody_knows_is_left_out(document: dict[str, Any]) -> None:
    newer = copy.deepcopy(document)
    newer["comparisons"][0]["verdict"] = "much_slower"
    reading = read_results(newer, KNOWN)
    assert len(reading.results.comparisons) == len(document["comparisons"]) - 1
    assert "an item of comparisons" in reading.notes[-1]


def test_a_missing_metric_is_missing_not_zero(document: dict[str, Any]) -> None:
    older = copy.deepcopy(document)
    for arm in older["arms"]:
        del arm["ttft_ms"]
    arm = read_results(older, KNOWN).results.arms[0]
    assert arm.metric("ttft_ms").mean is None


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_single_change_breaks_the_reading(document: dict[str, Any], data: st.DataObject) -> None:
    changed = copy.deepcopy(document)
    path = data.draw(st.sampled_from(places(document)))
    around = parent(changed, path)
    if data.draw(st.booleans()):
        del around[path[-1]]
    else:
        around[path[-1]] = data.draw(st.sampled_from([None, "word", 7, [], {}, [{}], {"new": 1}, True]))
    reading = read_results(changed, KNOWN)
    assert reading.results.experiment_id == "e"
