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
    suites = ElementTree.Element("testsuites", name=_xml(name or results["experiment_id"]))
    for (candidate, baseline), comparisons in list_pairs(results["comparisons"]).items():
        suite = ElementTree.SubElement(suites, "testsuite", name=_xml(f"{candidate} against {baseline}"))
        counts = {"failures": 0, "skipped": 0}
        for found in comparisons:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_xml(f"{candidate} against {baseline}"), name=found["metric"], time="0"
            )
            counts = _count(counts, _judge(case, found))
        suite.attrib |= {"tests": str(len(comparisons)), "errors": "0"} | {k: str(n) for k, n in counts.items()}
        ElementTree.SubElement(suite, "system-out").text = _xml(results["summary"])
    if results["failure"] is not None:
        suite = ElementTree.SubElement(suites, "testsuite", name="experiment", tests="1", failures="0", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname="experiment", name="runs to its end", time="0")
        error = ElementTree.SubElement(case, "error", message=_xml(results["failure"]["detail"]))
        error.text = _xml(results["failure"]["log_tail"] or "")
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _judge(case: ElementTree.Element, found: Object) -> str | None:
    change = percent(found["change_pct"], signed=True)
    said = f"{find_verdict(found)}: {change}, interval {interval(found['interval_pct'])}"
    if not found["primary"] or found["verdict"] in ("same", "faster"):
        ElementTree.SubElement(case, "system-out").text = said
        return None
    kind, counter = ("skipped", "skipped") if found["verdict"] == "inconclusive" else ("failure", "failures")
    ElementTree.SubElement(case, kind, message=_xml("; ".join([said, *found["reasons"]])))
    return counter


def _count(counts: dict[str, int], counter: str | None) -> dict[str, int]:
    return counts if counter is None else counts | {counter: counts[counter] + 1}


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
