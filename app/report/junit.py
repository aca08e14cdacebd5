"""Comparisons as tests, for what reads JUnit's XML."""

import re
from typing import Any
from xml.etree import ElementTree

from app.format import interval, percent
from app.report.remarks import find_verdict, list_pairs

Object = dict[str, Any]
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(results: Object, name: str) -> str:
    """A test suite per pair of arms, a test per metric: `slower` and `confounded` fail it, `inconclusive` skips it."""
    suites = ElementTree.Element("testsuites", name=_clean(name or results["experiment_id"]))
    for (candidate, baseline), comparisons in list_pairs(results["comparisons"]).items():
        suite = ElementTree.SubElement(suites, "testsuite", name=_clean(f"{candidate} against {baseline}"))
        counts = {"failures": 0, "skipped": 0}
        for found in comparisons:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_clean(f"{candidate} against {baseline}"), name=found["metric"], time="0"
            )
            counter = add_outcome(case, found)
            if counter is not None:
                counts[counter] += 1
        suite.attrib |= {"tests": str(len(comparisons)), "errors": "0"} | {k: str(n) for k, n in counts.items()}
        ElementTree.SubElement(suite, "system-out").text = _clean(results["summary"])
    if results["failure"] is not None:
        suite = ElementTree.SubElement(suites, "testsuite", name="experiment", tests="1", failures="0", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname="experiment", name="runs to its end", time="0")
        error = ElementTree.SubElement(case, "error", message=_clean(results["failure"]["detail"]))
        error.text = _clean(results["failure"]["log_tail"] or "")
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def add_outcome(case: ElementTree.Element, found: Object) -> str | None:
    """What a test came to; and which of the suite's counts it adds to."""
    change = percent(found["change_pct"], signed=True)
    said = f"{find_verdict(found)}: {change}, interval {interval(found['interval_pct'])}"
    if not found["primary"] or found["verdict"] in ("same", "faster"):
        ElementTree.SubElement(case, "system-out").text = said
        return None
    kind, counter = ("skipped", "skipped") if found["verdict"] == "inconclusive" else ("failure", "failures")
    ElementTree.SubElement(case, kind, message=_clean("; ".join([said, *found["reasons"]])))
    return counter


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
