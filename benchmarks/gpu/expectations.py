"""Did the service say what it must?"""

from typing import Any

from app.judge.verdict import Verdict
from benchmarks.gpu.parts import Expected

Object = dict[str, Any]
NAMED_BY = (Verdict.SLOWER, Verdict.FASTER)


def judge(expected: Expected, results: Object) -> Object:
    """Whether an expectation is met, what was found instead if not, and the size found beside the one known."""
    found = primary(results, expected.candidate)
    problems = ["there is no such comparison"] if found is None else _problems(expected, found, results)
    duration = primary(results, expected.candidate, "duration_s")
    return {
        "candidate": expected.candidate,
        "expected": expected.model_dump(mode="json", exclude={"candidate", "bare"}, exclude_none=True),
        "met": not problems,
        "problems": problems,
        "verdict": None if found is None else found["verdict"],
        "duration_change_pct": None if duration is None else duration["change_pct"],
        "duration_interval_pct": None if duration is None else duration["interval_pct"],
        "position_effect_pct": None if duration is None else duration["position_effect_pct"],
        "bare": None if expected.bare is None else expected.bare.model_dump(),
    }


def primary(results: Object, candidate: str, metric: str = "output_throughput") -> Object | None:
    """A candidate's comparison in a metric."""
    return next(
        (c for c in results["comparisons"] if c["candidate"] == candidate and c["metric"] == metric),
        None,
    )


def _problems(expected: Expected, found: Object, results: Object) -> list[str]:
    problems: list[str] = []
    same = Verdict.SAME in expected.verdicts and found["within_margin"] and found["verdict"] in NAMED_BY
    if found["verdict"] not in expected.verdicts and not same:
        problems.append(f"the verdict is {found['verdict']}")
    if expected.because is not None and not any(expected.because in reason for reason in found["reasons"]):
        problems.append(f"no reason names {expected.because}")
    if expected.setting is not None:
        problems += _unnamed(expected.setting, found, results)
    return problems


def _unnamed(setting: str, found: Object, results: Object) -> list[str]:
    """A difference that was planted must be declared and, where there is a winner, stand in the sentence."""
    parity = results["parity"]
    if parity is None:
        return ["parity is not known"]
    problems = [f"undeclared: {difference['key']}" for difference in parity["undeclared"]]
    if not any(setting in (difference["setting"] or "") for difference in parity["declared"]):
        problems.append(f"no declared difference follows from {setting}")
    if found["verdict"] in NAMED_BY and setting not in results["summary"]:
        problems.append(f"the summary does not name {setting}")
    return problems
