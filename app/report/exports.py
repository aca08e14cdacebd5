"""The results document in the formats of other tools."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from app.format import interval, number, percent, spread
from app.measure.metrics import METRICS, Kind
from app.report.remarks import pairs_of, remarks, verdict_of
from app.spec.resolution import ResolvedArm, ResolvedExperiment

Object = dict[str, Any]
_VLLM_LATENCIES = ("ttft", "tpot", "itl", "e2el")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def vllm_bench(results: Object, resolved: ResolvedExperiment, name: str) -> list[Object]:
    """One object per measured trial, with the keys of `vllm bench serve --save-result`.

    Unlike there, a value that is unknown is null, and a percentile of too few samples is one.
    """
    settings = {arm.name: arm for arm in resolved.arms}
    return [
        _vllm_result(trial, settings[trial["arm"]], name)
        for trial in results["trials"]
        if trial["phase"] == "measured" and trial["state"] == "succeeded"
    ]


def _vllm_result(trial: Object, arm: ResolvedArm, name: str) -> Object:
    metrics = trial["metrics"]
    duration = metrics.get("duration_s")
    found = {
        "date": trial["started_at"],
        "endpoint_type": arm.driver.api,
        "backend": arm.driver.api,
        "label": arm.name,
        "model_id": arm.model.id,
        "tokenizer_id": arm.model.tokenizer or arm.model.id,
        "experiment": name,
        "trial": trial["slot"],
        "block": trial["block"],
        "duration": duration,
        "completed": _total(metrics.get("request_throughput"), duration),
        "total_output_tokens": _total(metrics.get("output_throughput"), duration),
        "request_goodput": metrics.get("request_goodput"),
        **{key: metrics.get(key) for key in ("request_throughput", "output_throughput", "total_token_throughput")},
    }
    for latency in _VLLM_LATENCIES:
        for ours, theirs in (("mean", "mean"), ("p50", "median"), ("std", "std"), ("p90", "p90"), ("p99", "p99")):
            found[f"{theirs}_{latency}_ms"] = metrics.get(f"{latency}_ms.{ours}")
    return found


def _total(rate: float | None, duration: float | None) -> int | None:
    return None if rate is None or duration is None else round(rate * duration)


def pytorch_benchmark(results: Object, resolved: ResolvedExperiment, name: str) -> list[Object]:
    """One record per arm and metric, as the PyTorch benchmark database takes them."""
    settings = {arm.name: arm for arm in resolved.arms}
    return [record for arm in results["arms"] for record in _pytorch_records(results, arm, settings[arm["name"]], name)]


def _pytorch_records(results: Object, arm: Object, settings: ResolvedArm, name: str) -> Iterator[Object]:
    benchmark = {
        "name": "Rollout Lab",
        "mode": "inference",
        "dtype": settings.engine.dtype,
        "extra_info": {
            "experiment_id": results["experiment_id"],
            "experiment": name,
            "arm": arm["name"],
            "profile": settings.profile,
            "simulated": arm["simulated"],
            "args": settings.engine.model_dump(mode="json", exclude_none=True),
            "driver": settings.driver.model_dump(mode="json"),
            "environment": results["environment"],
        },
    }
    for key, metric in METRICS.items():
        found = arm[key]
        values = (
            {key: found["per_trial"]}
            if metric.kind is Kind.SCALAR
            else {f"{key}.{statistic}": [found[statistic]] for statistic in ("mean", "p50", "p90", "p99")}
        )
        for full, measured in values.items():
            known = [value for value in measured if value is not None]
            if known:
                yield {
                    "benchmark": benchmark,
                    "model": {"name": settings.model.id},
                    "metric": {"name": full, "benchmark_values": known, "extra_info": {"unit": metric.unit}},
                }


def junit(results: Object, name: str) -> str:
    """A test suite per pair of arms, a test per metric: `slower` and `confounded` fail it, `inconclusive` skips it."""
    suites = ElementTree.Element("testsuites", name=_xml(name or results["experiment_id"]))
    for (candidate, baseline), comparisons in pairs_of(results["comparisons"]).items():
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
    said = (
        f"{verdict_of(found)}: {percent(found['change_pct'], signed=True)}, interval {interval(found['interval_pct'])}"
    )
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


def markdown(results: Object, name: str) -> str:
    """The sentence, the tables, the remarks: for a comment on a pull request."""
    lines = [f"### {_cell(name or results['experiment_id'])}", "", f"**{_cell(results['summary'])}**", ""]
    lines += _table(
        ("arm", "trials", "output tokens/s", "latency p50 ms", "p90 ms", "p99 ms"),
        [
            (
                f"{arm['name']} ({arm['profile']})",
                str(arm["trials"]),
                f"{number(arm['output_throughput']['mean'])} {spread(arm['output_throughput']['std'])}",
                *(number(arm["e2el_ms"][key]) for key in ("p50", "p90", "p99")),
            )
            for arm in results["arms"]
        ],
    )
    for (candidate, baseline), comparisons in pairs_of(results["comparisons"]).items():
        rows = [
            (
                found["metric"] + (" (primary)" if found["primary"] else ""),
                percent(found["change_pct"], signed=True),
                interval(found["interval_pct"]),
                str(found["pairs"]),
                verdict_of(found),
            )
            for found in comparisons
            if found["primary"] or found["change_pct"] is not None
        ]
        lines += ["", f"{_cell(candidate)} against {_cell(baseline)}:", ""]
        lines += _table(("metric", "change", "interval", "blocks", "verdict"), rows)
    lines += ["", *(f"- {_cell(remark)}" for remark in remarks(results))]
    environment = results["environment"]
    if environment is not None:
        where = ", ".join(str(environment[key]) for key in ("gpu", "cpu", "vllm") if environment[key])
        lines += ["", f"{_cell(where)}; fingerprint `{environment['fingerprint'][:12]}`; {results['method']['name']}"]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(map(_cell, cells))} |"

    return [line(head), f"|{' --- |' * len(head)}", *map(line, rows)]


def _cell(text: str) -> str:
    """Text that Markdown leaves alone."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
