"""How far an experiment has come: one cell per trial, or one bar per arm where there are many."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.pages.charts.figure import Figure
from app.pages.charts.svg import NARROW, WIDE, Box, draw_box, draw_picture, draw_text, show_both
from app.pages.words import isolate, shorten

MOST_CELLS = 1200
_COLUMNS = ("arm", "block", "state")


@dataclass(frozen=True, slots=True)
class Cells:
    """The state of every planned trial: (arm, block) -> planned, running, done or failed."""

    arms: Sequence[str]
    blocks: int
    states: Mapping[tuple[str, int], str]

    def state(self, arm: str, block: int) -> str:
        """Of one trial."""
        return self.states.get((arm, block), "planned")

    def count(self, arm: str, state: str) -> int:
        """Trials of an arm in a state."""
        return sum(self.state(arm, block) == state for block in range(self.blocks))


def plot_schedule(cells: Cells) -> Figure:
    """Rows are arms, columns are blocks."""
    rows = tuple((arm, block, cells.state(arm, block)) for arm in cells.arms for block in range(cells.blocks))
    label = "; ".join(
        f"{arm}: {cells.count(arm, 'done')} of {cells.blocks} trials done" for arm in list(cells.arms)[:12]
    )
    svg = show_both(*(draw_rows(cells, width, label) for width in (WIDE, NARROW)))
    return Figure("progress", "Trials by arm and block", "", svg, _COLUMNS, rows)


def draw_rows(cells: Cells, width: int, label: str) -> Markup:
    """A row for every arm, of cells or else of bars."""
    start = 150.0 if width == WIDE else 96.0
    row = 24.0 if len(cells.arms) <= 12 else 14.0
    top = 20.0
    column = min((width - start) / max(cells.blocks, 1), 72.0)
    in_cells = len(cells.arms) * cells.blocks <= MOST_CELLS and column >= 5
    parts = [
        draw_text(start, 12, "block 0", "tick"),
        draw_text(start + column * cells.blocks, 12, f"block {cells.blocks - 1}", "tick", "end"),
    ]
    for index, arm in enumerate(cells.arms):
        y = top + index * row
        most = 20 if width == WIDE else 13
        parts.append(draw_text(0, y + row / 2 + 4, isolate(shorten(arm, most)), "name", full=arm))
        box = Box(start, y, column * cells.blocks if in_cells else width - start, row)
        parts += draw_cells(cells, arm, box) if in_cells else draw_bar(cells, arm, box)
    return draw_picture(width, top + row * len(cells.arms) + 2, label, parts)


def draw_cells(cells: Cells, arm: str, box: Box) -> Iterator[Markup]:
    """A cell for every trial of an arm."""
    column = box.width / cells.blocks
    for block in range(cells.blocks):
        state = cells.state(arm, block)
        cell = Box(box.left + block * column + 1, box.top + 2, column - 2, box.height - 4)
        yield draw_box(cell, f"cell {state}", title=f"{arm}, block {block}: {state}")


def draw_bar(cells: Cells, arm: str, box: Box) -> Iterator[Markup]:
    """How many of an arm's trials are done, as one bar."""
    done, failed = (box.width * cells.count(arm, state) / cells.blocks for state in ("done", "failed"))
    top, height = box.top + 3, box.height - 6
    yield draw_box(Box(box.left, top, box.width, height), "cell planned")
    yield draw_box(Box(box.left, top, done, height), "cell done")
    yield draw_box(Box(box.left + done, top, failed, height), "cell failed")
