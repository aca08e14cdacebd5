"""The digests as Markdown, for docs/results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.format import NOTHING, interval, percent
from benchmarks.gpu.fresh import PART as FRESH

Object = dict[str, Any]


def tables(parts: Mapping[str, Object], not_run: Mapping[str, str]) -> str:
    """One section per question."""
    experiments = {name: part for name, part in parts.items() if "comparisons" in part}
    sections = {
        "Comparisons": _table(
            ("part", "candidate", "against", "change", "interval", "blocks", "block sd", "verdict"),
            (row for name, part in experiments.items() for row in _comparisons(name, part)),
        ),
        "Arms": _table(
            ("part", "arm", "trials", "output tokens/s", "trial s", "engine start s", "W", "utilisation %"),
            (row for name, part in experiments.items() for row in _arms(name, part)),
        ),
        "Expectations": _table(
            ("part", "candidate", "verdict", "met", "time", "time, second in a block", "bare scripts read", "problems"),
            (row for name, part in experiments.items() for row in _expectations(name, part)),
        ),
        "Costs": _table(
            (
                "part",
                "engines",
                "trials",
                "GPU s",
                "first sleeps s",
                "later sleeps s",
                "wakes s",
                "with swap s",
                "without s",
            ),
            (_costs(name, part) for name, part in experiments.items()),
        ),
        "The harness": _table(
            ("driver", "samples x tokens", "pairs", "throughput ratio", "interval", "pair sd", "at least 0.995"),
            (_harness(size) for part in parts.values() for size in part.get("sizes", ())),
        ),
        "Fresh processes": _table(
            ("trials", "ran", "a process s", "all processes s", "service s", "share", "at most a third", "interval"),
            ([_fresh(parts[FRESH])] if FRESH in parts else []),
        ),
        "Times and timeline": _table(
            (
                "part",
                "records",
                "seven times",
                "in order",
                "trials",
                "tokens agree",
                "samples",
                "most running",
                "steps",
            ),
            (_times(name, part["telemetry"]) for name, part in experiments.items()),
        ),
        "NVML against nvidia-smi": _table(
            ("part", "reading", "trials", "NVML", "nvidia-smi", "largest difference"),
            (row for name, part in experiments.items() for row in _nvml(name, part["telemetry"])),
        ),
        "Not as planned": _table(("part", "what"), _troubles(parts, not_run)),
    }
    return "\n".join(f"## {title}\n\n{table}" for title, table in sections.items() if table)


def _comparisons(name: str, part: Object) -> Iterator[Sequence[str]]:
    for one in part["comparisons"]:
        if one["metric"] == "output_throughput":
            verdict = one["verdict"] + (
                ", within the margin" if one["verdict"] in ("slower", "faster") and one["within_margin"] else ""
            )
            yield (
                name,
                one["candidate"],
                one["baseline"],
                percent(one["change_pct"], signed=True),
                interval(one["interval_pct"]),
                str(one["pairs"]),
                _figure(one["sd_pct"], " %"),
                verdict,
            )


def _arms(name: str, part: Object) -> Iterator[Sequence[str]]:
    for arm in part["arms"]:
        throughput = arm["output_throughput"]
        yield (
            name,
            arm["name"],
            str(arm["trials"]),
            f"{_figure(throughput['mean'])} ± {_figure(throughput['std'])}",
            _figure(arm["duration_s"]["mean"]),
            _figure(arm["start_s"]),
            _figure(arm["power_w"]["mean"]),
            _figure(arm["gpu_util_pct"]["mean"]),
        )


def _expectations(name: str, part: Object) -> Iterator[Sequence[str]]:
    for one in part["expectations"]:
        bare = one["bare"]
        yield (
            name,
            one["candidate"],
            one["verdict"] or NOTHING,
            _yes(one["met"]),
            percent(one["duration_change_pct"], signed=True),
            percent(one["position_effect_pct"], signed=True),
            NOTHING if bare is None else f"{percent(bare['change_pct'], signed=True)} ({bare['of']})",
            "; ".join(one["problems"]) or NOTHING,
        )


def _costs(name: str, part: Object) -> Sequence[str]:
    turns = part["taking_turns"]
    firsts = ", ".join(_figure(seconds) for seconds in turns["first_sleeps_s"]) or NOTHING
    spans = (_mean(turns[key]) for key in ("later_sleeps_s", "wakes_s", "with_swap_s", "without_s"))
    return (name, str(part["engines"]), str(part["trials"]), _figure(part["gpu_s"]), firsts, *spans)


def _harness(size: Object) -> Sequence[str]:
    low, high = size["interval"]
    return (
        size["driver"],
        size["samples_x_tokens"],
        str(size["pairs"]),
        f"{size['throughput_ratio']:.4f}",
        f"{low:.4f} to {high:.4f}",
        size["pair_sd"],
        _yes(size["goal_met"]),
    )


def _fresh(part: Object) -> Sequence[str]:
    compared = part.get("comparison")
    share = part.get("service_share")
    return (
        str(part["trials"]),
        str(part["ran"]),
        _figure(part.get("process_s")),
        _figure(part.get("all_processes_s")),
        _figure(part.get("service_s")),
        NOTHING if share is None else f"{share:.2f}",
        _yes(part.get("goal_met")),
        NOTHING if compared is None else f"{interval(compared['interval_pct'])}, {compared['blocks']} blocks",
    )


def _times(name: str, telemetry: Object) -> Sequence[str]:
    times, line = telemetry["times"], telemetry["timeline"]
    counts = (times[key] for key in ("records", "with_all_times", "in_order"))
    shape = (line[key] for key in ("trials", "tokens_agree", "samples_per_trial", "most_running"))
    return (name, *map(str, counts), *map(str, shape), _figure(line["steps_per_trial"]))


def _nvml(name: str, telemetry: Object) -> Iterator[Sequence[str]]:
    for reading, one in telemetry["nvml"].items():
        if one is not None:
            figures = (_figure(one[key]) for key in ("nvml", "nvidia_smi", "largest_difference"))
            yield (name, reading, str(one["trials"]), *figures)


def _troubles(parts: Mapping[str, Object], not_run: Mapping[str, str]) -> Iterator[Sequence[str]]:
    for name, part in parts.items():
        if part.get("error") or part.get("failure"):
            yield name, str(part.get("error") or part["failure"]).replace("|", "\\|").replace("\n", " ")[:400]
        if part.get("status", "succeeded") != "succeeded" or part.get("cut_short"):
            yield name, f"cut short: {part.get('status', 'the deadline came first')}"
        if part.get("blocks_planned", 0) < part.get("blocks_asked", 0):
            yield name, f"{part['blocks_planned']} blocks instead of {part['blocks_asked']}"
    for name, reason in not_run.items():
        yield name, f"left out: {reason}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([f"| {' | '.join(columns)} |\n", f"|{'---|' * len(columns)}\n", *lines]) if lines else ""


def _figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit}"


def _mean(spread: Object | None) -> str:
    return NOTHING if spread is None else f"{_figure(spread['mean'])} ({spread['n']})"


def _yes(value: bool | None) -> str:
    return NOTHING if value is None else "yes" if value else "no"
