"""Words and figures for people, from the results document: what terminals and exports say alike."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.format import percent
from app.judge.verdict import Verdict, sort_worst_first

Object = dict[str, Any]
_SHOWN_DIFFERENCES = 10


def list_remarks(results: Object) -> list[str]:
    """What limits the comparison: parity, fairness, reasons of verdicts, warnings."""
    return [
        *tell_parity(results["parity"]),
        *tell_fairness(results["fairness"]),
        *list_reasons(results["comparisons"]),
        *(f"{'' if not w['arm'] else w['arm'] + ': '}{w['detail']}" for w in results["warnings"]),
    ]


def list_reasons(comparisons: Iterable[Object]) -> list[str]:
    """Why verdicts are not clear, each reason once."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for found in comparisons:
        for reason in found["reasons"]:
            metrics.setdefault((found["candidate"], reason), []).append(found["metric"])
    return [
        f"{candidate}, {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
        for (candidate, reason), names in metrics.items()
    ]


def tell_parity(parity: Object | None) -> list[str]:
    """Whether the arms' configurations differ as declared."""
    if parity is None:
        return ["parity: not known, fewer than two engines have started"]
    if not parity["equal"]:
        return [f"parity: differences nobody declared: {_name_keys(parity['undeclared'], values=True)}"]
    if not parity["declared"]:
        return ["parity: the arms' configurations are equal"]
    return [f"parity: the arms differ only as declared, in {_name_keys(parity['declared'])}"]


def _name_keys(differences: Sequence[Object], *, values: bool = False) -> str:
    shown = [
        f"{d['key']} ({', '.join(f'{arm} {value}' for arm, value in d['values'].items())})" if values else d["key"]
        for d in differences[:_SHOWN_DIFFERENCES]
    ]
    more = len(differences) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def tell_fairness(fairness: Object | None) -> list[str]:
    """Whether the arms did equal work."""
    if fairness is None or not fairness["blocks"]:
        return ["fairness: not known, no block is complete"]
    tokens = ", ".join(f"{arm} {count:,}" for arm, count in fairness["output_tokens"].items())
    same = fairness["identical_outputs_pct"]
    alike = "" if same is None else f"; {percent(same)} of the samples have identical tokens"
    found = fairness["differences"]
    effects = dict.fromkeys(f"{one['what']} by {one['setting']}" for one in found if one.get("setting"))
    if fairness["equal"]:
        verdict = "the arms did equal work"
    elif all(one.get("setting") for one in found):
        verdict = f"the arms' work differs only as declared, in {', '.join(effects)}"
    else:
        verdict = "the arms did UNEQUAL work"
    return [f"fairness: {verdict} (output tokens: {tokens}){alike}"]


def list_pairs(comparisons: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """Comparisons by candidate and baseline."""
    pairs: dict[tuple[str, str], list[Object]] = {}
    for found in comparisons:
        pairs.setdefault((found["candidate"], found["baseline"]), []).append(found)
    return pairs


def list_verdicts(results: Object) -> tuple[Verdict, ...]:
    """What the primary comparisons of all candidates came to, the worst first."""
    return sort_worst_first(found["verdict"] for found in results["comparisons"] if found["primary"])


def find_verdict(comparison: Object) -> str:
    """The verdict, with its proviso."""
    small = comparison["within_margin"] and comparison["verdict"] in ("slower", "faster")
    return str(comparison["verdict"]) + (", within the margin" if small else "")
