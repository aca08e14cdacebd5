"""Results in Markdown: for a comment on a pull request."""

import re
from collections.abc import Iterable
from typing import Any

from app.format import interval, number, percent, spread
from app.report.remarks import find_verdict, list_pairs, list_remarks

Object = dict[str, Any]


def write(results: Object, name: str) -> str:
    """The sentence, the tables, the remarks: for a comment on a pull request."""
    lines = [f"### {_escape(name or results['experiment_id'])}", "", f"**{_escape(results['summary'])}**", ""]
    lines += _write_table(
        ("arm", "trials", "output tokens/s (± sd of trials)", "latency p50 ms", "p90 ms", "p99 ms"),
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
    for (candidate, baseline), comparisons in list_pairs(results["comparisons"]).items():
        rows = [
            (
                found["metric"] + (" (primary)" if found["primary"] else ""),
                percent(found["change_pct"], signed=True),
                interval(found["interval_pct"]),
                str(found["pairs"]),
                find_verdict(found),
            )
            for found in comparisons
            if found["primary"] or found["change_pct"] is not None
        ]
        lines += ["", f"{_escape(candidate)} against {_escape(baseline)}:", ""]
        lines += _write_table(("metric", "change", "interval", "blocks", "verdict"), rows)
    lines += ["", *(f"- {_escape(remark)}" for remark in list_remarks(results))]
    environment = results["environment"]
    if environment is not None:
        where = ", ".join(str(environment[key]) for key in ("gpu", "cpu", "vllm") if environment[key])
        lines += ["", f"{_escape(where)}; fingerprint `{environment['fingerprint'][:12]}`; {results['method']['name']}"]
    return "\n".join(lines) + "\n"


def _write_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(map(_escape, cells))} |"

    return [line(head), f"|{' --- |' * len(head)}", *map(line, rows)]


def _escape(text: str) -> str:
    """Text that Markdown leaves alone."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
