"""Results as a terminal shows them."""

from typing import Any

from rich.console import Console

from app.cli.render import build_comparison_table
from app.report.remarks import list_remarks


def shown(thing: Any) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()


def a_comparison(**changes: Any) -> dict[str, Any]:
    found = {
        "metric": "output_throughput",
        "primary": True,
        "candidate": "async",
        "baseline": "sync",
        "change_pct": -0.2,
        "interval_pct": [-0.8, 0.4],
        "pairs": 6,
        "verdict": "same",
        "within_margin": True,
        "reasons": [],
    }
    return found | changes


def some_results(**changes: Any) -> dict[str, Any]:
    return {"parity": None, "fairness": None, "comparisons": [], "warnings": []} | changes


def test_a_comparison_is_a_row() -> None:
    text = shown(build_comparison_table([a_comparison(), a_comparison(metric="ttft_ms.p50", primary=False)]))
    assert "output_throughput (primary)   −0.2 %   −0.8 % to +0.4 %        6   same" in text
    assert "ttft_ms.p50" in text


def test_a_small_difference_says_that_it_is_small() -> None:
    assert "slower, within the margin" in shown(build_comparison_table([a_comparison(verdict="slower")]))


def test_what_could_not_be_compared_is_left_out_unless_it_is_primary() -> None:
    nothing = {"change_pct": None, "interval_pct": None, "verdict": "inconclusive"}
    text = shown(
        build_comparison_table([a_comparison(**nothing), a_comparison(metric="itl_ms.p50", primary=False, **nothing)])
    )
    assert "inconclusive" in text
    assert "itl_ms" not in text


def test_names_are_not_markup() -> None:
    assert "[red]" in shown(build_comparison_table([a_comparison(metric="[red]")]))


def test_an_undeclared_difference_is_spelled_out() -> None:
    difference = {"key": "engine.max_num_seqs", "values": {"sync": 1024, "async": 128}, "setting": None}
    found = list_remarks(some_results(parity={"equal": False, "declared": [], "undeclared": [difference] * 12}))
    assert found[0].startswith("parity: differences nobody declared: engine.max_num_seqs (sync 1024, async 128), ")
    assert found[0].endswith(" and 2 more")


def test_parity_names_what_was_declared() -> None:
    difference = {"key": "driver.api", "values": {"sync": "llm", "async": "async_llm"}, "setting": "driver.api"}
    parity = {"equal": True, "declared": [difference], "undeclared": []}
    assert list_remarks(some_results(parity=parity))[0] == "parity: the arms differ only as declared, in driver.api"
    assert (
        list_remarks(some_results(parity=parity | {"declared": []}))[0] == "parity: the arms' configurations are equal"
    )


def test_unequal_work_cannot_be_overlooked() -> None:
    tokens = {"sync": "4096", "async": "4000"}
    fairness = {
        "equal": False,
        "blocks": 1,
        "output_tokens": {"sync": 4096, "async": 4000},
        "identical_outputs_pct": None,
        "differences": [{"what": "output_tokens", "values": tokens, "blocks": [0], "setting": None}],
    }
    assert list_remarks(some_results(fairness=fairness))[1] == (
        "fairness: the arms did UNEQUAL work (output tokens: sync 4,096, async 4,000)"
    )


def test_of_work_that_nobody_saw_nothing_is_said() -> None:
    nothing = {"equal": True, "blocks": 0, "output_tokens": {"sync": 0, "async": 0}, "differences": []}
    assert list_remarks(some_results(fairness=nothing))[1] == "fairness: not known, no block is complete"


def test_a_reason_is_given_once() -> None:
    comparisons = [a_comparison(metric=metric, reasons=["one block"]) for metric in ("a", "b", "c")]
    assert list_remarks(some_results(comparisons=comparisons))[2:] == ["async, a and 2 more: one block"]


def test_warnings_name_their_arm() -> None:
    warnings = [{"arm": "async", "detail": "the loop lagged"}, {"arm": None, "detail": "the host was busy"}]
    assert list_remarks(some_results(warnings=warnings))[2:] == ["async: the loop lagged", "the host was busy"]
