"""Did the service say what it must?"""

from typing import Any

import pytest

from app.judge.verdict import Verdict
from benchmarks.gpu.expectations import judge
from benchmarks.gpu.parts import Bare, Expected

EAGER = Expected(candidate="async", verdicts=(Verdict.SLOWER,), setting="engine.enforce_eager")


def results(
    verdict: str,
    *,
    reasons: tuple[str, ...] = (),
    within_margin: bool = False,
    setting: str | None = None,
    undeclared: tuple[str, ...] = (),
    summary: str = "async is slower than sync.",
) -> dict[str, Any]:
    """What the service said of `async`."""
    comparison = {"candidate": "async", "verdict": verdict, "reasons": reasons, "within_margin": within_margin}
    return {
        "summary": summary,
        "comparisons": [
            comparison
            | {"metric": metric, "change_pct": change, "interval_pct": [change - 1, change + 1]}
            | {"position_effect_pct": 0.1}
            for metric, change in (("output_throughput", -18.7), ("duration_s", 23.0))
        ],
        "parity": {
            "declared": [{"key": "engine.some.key", "setting": setting}],
            "undeclared": [{"key": key} for key in undeclared],
        },
    }


def test_a_planted_confound_that_is_named_is_met_and_stands_beside_the_known_size() -> None:
    expected = Expected(
        candidate="async",
        verdicts=(Verdict.CONFOUNDED,),
        because="max_num_seqs",
        bare=Bare(change_pct=23.0, of="256 x 512"),
    )
    found = judge(expected, results("confounded", reasons=("max_num_seqs is 1024 and 128",)))
    assert found["met"]
    assert found["duration_change_pct"] == found["bare"]["change_pct"] == 23.0


def test_a_confound_that_passes_for_a_slower_mode_is_not_met() -> None:
    expected = Expected(candidate="async", verdicts=(Verdict.CONFOUNDED,), because="max_num_seqs")
    found = judge(expected, results("slower"))
    assert not found["met"]
    assert found["problems"] == ["the verdict is slower", "no reason names max_num_seqs"]


def test_a_planted_difference_must_stand_in_the_sentence() -> None:
    named = results("slower", setting="engine.enforce_eager", summary="slower. They differ in engine.enforce_eager.")
    assert judge(EAGER, named)["met"]
    unnamed = judge(EAGER, results("slower", setting="engine.enforce_eager"))
    assert unnamed["problems"] == ["the summary does not name engine.enforce_eager"]


def test_a_difference_nobody_declared_is_a_problem() -> None:
    found = judge(EAGER, results("confounded", setting="engine.enforce_eager", undeclared=("engine.x",)))
    assert found["problems"] == ["the verdict is confounded", "undeclared: engine.x"]


@pytest.mark.parametrize(("within_margin", "met"), [(True, True), (False, False)])
def test_slower_within_the_margin_is_the_same(within_margin: bool, met: bool) -> None:
    expected = Expected(candidate="async", verdicts=(Verdict.SAME,))
    assert judge(expected, results("slower", within_margin=within_margin))["met"] is met


def test_an_experiment_that_never_compared_meets_nothing() -> None:
    found = judge(EAGER, {"comparisons": [], "summary": "Failed.", "parity": None})
    assert found["problems"] == ["there is no such comparison"]
    assert found["verdict"] is None
