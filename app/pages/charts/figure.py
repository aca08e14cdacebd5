"""A chart and the data it was drawn from."""

from dataclasses import dataclass, field
from urllib.parse import urlencode

from markupsafe import Markup

Address = dict[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its data, which has an address of its own; `svg` is None where there is nothing to draw."""

    name: str  # last part of its data's address
    title: str
    note: str  # what to know when reading it, or why there is none
    svg: Markup | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    query: Address = field(default_factory=dict)  # what else its data's address needs
    explore: str | None = None  # columns of the interactive chart: x, y, series; and the kind of its x axis

    @property
    def search(self) -> str:
        """The query of its data's address."""
        return urlencode(self.query, doseq=True)

    def items(self) -> list[dict[str, object]]:
        """A row as an object each."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
