"""Comparisons as tests."""

from typing import Any
from xml.etree import ElementTree

import pytest

from app.errors import FailureCode
from app.report import junit
from app.spec.lifecycle import Failure
from tests.support.documents import SPEC, a_document


def cases(document: dict[str, Any]) -> dict[str, ElementTree.Element]:
    suites = ElementTree.fromstring(junit.write(document, SPEC.name).encode())  # noqa: S314 - our own
    return {case.get("name", ""): case for case in suites.iter("testcase")}


@pytest.mark.parametrize(
    ("candidate", "blocks", "child"), [(80.0, 6, "failure"), (120.0, 6, "system-out"), (90.0, 1, "skipped")]
)
def test_it_fails_what_got_slower(candidate: float, blocks: int, child: str) -> None:
    assert [e.tag for e in cases(a_document(candidate=candidate, blocks=blocks))["output_throughput"]] == [child]


def test_it_fails_what_is_confounded() -> None:
    document = a_document()
    for comparison in document["comparisons"]:
        comparison |= {"verdict": "confounded", "reasons": ["engine.max_num_seqs differs"]}
    failure = cases(document)["output_throughput"].find("failure")
    assert failure is not None
    assert failure.get("message", "").endswith("; engine.max_num_seqs differs")


def test_counts_add_up() -> None:
    suites = ElementTree.fromstring(junit.write(a_document(), SPEC.name).encode())  # noqa: S314 - our own
    (suite,) = suites
    assert suite.get("name") == "async against sync"
    assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == 2


def test_it_tells_of_a_failed_experiment_whatever_its_log_holds() -> None:
    failure = Failure(code=FailureCode.ENGINE_DIED, detail="died \x1b[31m<badly>", log_tail="a\x00b & c")
    document = a_document(blocks=0, failure=failure)
    error = cases(document)["runs to its end"].find("error")
    assert error is not None
    assert error.get("message") == "died \ufffd[31m<badly>"
    assert error.text == "a\ufffdb & c"
