"""Are the arms comparable: do their resolved configurations differ only where the experiment says so?"""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from app.experiment.records import ResolvedArm
from app.experiment.resolution import ArmSettings
from app.experiment.spec import SpecModel


class Difference(SpecModel):
    """A key in which the arms' resolved configurations differ."""

    key: str = Field(
        description="Dotted key of the resolved configuration: `engine.*`, `driver.*`, `env.*`, `versions.*`, "
        "`hardware.*`.",
        examples=["engine.scheduler_config.max_num_seqs"],
    )
    values: dict[str, JsonValue] = Field(
        description="Value by arm; null also where an arm's configuration has no such key.",
        examples=[{"sync": 1024, "async": 128}],
    )
    setting: str | None = Field(
        description="Setting of the arms that it follows from; null where none explains it.",
        examples=["engine.max_num_seqs"],
    )


class ParityReport(SpecModel):
    """Whether the arms' resolved configurations differ only where the experiment says so."""

    equal: bool = Field(description="True where `undeclared` is empty.")
    declared: tuple[Difference, ...] = Field(description="Differences that follow from what the arms' settings say.")
    undeclared: tuple[Difference, ...] = Field(description="Differences nobody asked for: they confound.")


def check_parity(arms: Sequence[ArmSettings], resolved: Sequence[ResolvedArm]) -> ParityReport:
    """Compare everything the arms' engines resolved to; arms that have not started yet are left out."""
    raise NotImplementedError
