"""What the engines ran, and how full their KV cache was, over one trial of each arm."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.measure.columns import Floats
from app.pages.charts.axis import draw_bottom, draw_left
from app.pages.charts.figure import Address, Figure
from app.pages.charts.legend import choose_hue, draw_legend
from app.pages.charts.scale import Linear
from app.pages.charts.svg import NARROW, WIDE, Box, draw_line, draw_picture, make_element, make_path, show_both

MOST_POINTS = 512
_COLUMNS = ("arm", "at_s", "running", "waiting", "kv_cache_usage_pct")


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """An engine's state at moments of one trial."""

    at_s: Floats
    running: Floats
    waiting: Floats
    kv_cache_usage_pct: Floats


@dataclass(frozen=True, slots=True)
class ArmState:
    """An arm's engine in the block that is drawn."""

    arm: str
    index: int
    state: State


def plot_states(arms: Sequence[ArmState], block: int | None, query: Address) -> Figure:
    """Two panels on one time axis."""
    title = "Inside the engine" if block is None else f"Inside the engine: block {block}"
    if not arms:
        reason = "The engines' state was not sampled: no arm of this block reported any."
        return Figure("engine", title, reason, None, _COLUMNS, (), query)
    note = "Requests in the engine's batch (full) and waiting for it (dotted), and the share of the KV cache in use."
    rows = tuple(
        (one.arm, *(round(value, 6) for value in values))
        for one in arms
        for values in zip(
            *(
                column.tolist()
                for column in (one.state.at_s, one.state.running, one.state.waiting, one.state.kv_cache_usage_pct)
            ),
            strict=True,
        )
    )
    label = f"{title}: " + "; ".join(
        f"{one.arm} runs {one.state.running.max():.0f} requests at most, KV cache up to "
        f"{one.state.kv_cache_usage_pct.max():.0f} %"
        for one in arms
    )
    svg = show_both(*(draw_panels(arms, width, label) for width in (WIDE, NARROW)))
    return Figure("engine", title, note, svg, _COLUMNS, rows, query, explore="at_s,running,arm,linear")


def draw_panels(arms: Sequence[ArmState], width: int, label: str) -> Markup:
    """Requests above, the KV cache below, so many pixels wide."""
    names, height = draw_legend([(one.arm, one.index) for one in arms], 46, 14, width - 46)
    above = Box(46, height + 28.0, width - 58.0, 150)
    below = Box(46, above.base + 44, width - 58.0, 110)
    x = Linear(0.0, max(float(one.state.at_s.max()) for one in arms) * 1.01 or 1.0, above.left, above.right)
    most = max(max(float(one.state.running.max()), float(one.state.waiting.max())) for one in arms)
    running = Linear(0.0, most * 1.05 or 1.0, above.base, above.top)
    full = max(float(one.state.kv_cache_usage_pct.max()) for one in arms)
    cache = Linear(0.0, min(100.0, full * 1.15) or 1.0, below.base, below.top)
    parts = [
        *names,
        *draw_left(running, above, 4, "requests"),
        *draw_left(cache, below, 3, "KV cache in use, %"),
        *draw_bottom(x, below, 8 if width == WIDE else 4, "seconds since the trial began"),
        draw_line(above.left, above.base, above.right, above.base, "axis"),
        draw_line(below.left, below.base, below.right, below.base, "axis"),
    ]
    for one in reversed(arms):
        state, color = one.state, choose_hue(one.index)
        for values, scale, kind in (
            (state.waiting, running, "series waiting"),
            (state.running, running, "series"),
            (state.kv_cache_usage_pct, cache, "series"),
        ):
            points = [(x(at), scale(value)) for at, value in zip(state.at_s.tolist(), values.tolist(), strict=True)]
            if values is not state.waiting or float(values.max()) > 0:
                parts.append(make_element("path", d=make_path(points, steps=True), cls=f"{kind} {color}"))
    return draw_picture(width, below.base + 42, label, parts)
