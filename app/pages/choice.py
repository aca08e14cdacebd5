"""What a reader chose to see: part of the address, so that a page can be sent to somebody."""

from typing import Annotated, Self

from fastapi import Query
from pydantic import BaseModel, Field

from app.pages.charts.legend import MOST
from app.pages.digests import LATENCIES
from app.pages.subject import Subject


class Choice(BaseModel):
    """Choices that a page does not know are as if they had not been made."""

    candidate: str | None = None
    metric: str | None = None
    latency: str | None = None
    block: int | None = Field(None, ge=0, le=10_000)
    arm: list[str] = Field([], max_length=64)
    settings: str | None = None
    seen: str | None = None

    def fit(self, subject: Subject) -> Self:
        """The choice with what the experiment has in place of what it has not."""
        candidates = subject.candidates
        candidate = self.candidate if self.candidate in candidates else (candidates[0] if candidates else None)
        metrics = [found.metric for found in subject.list_comparisons(candidate)] if candidate else []
        arms = [arm for arm in subject.arms if arm in self.arm][:MOST]
        baseline = subject.row.spec.baseline_name
        default = [baseline, *candidates][:MOST]
        return self.model_copy(
            update={
                "candidate": candidate,
                "metric": self.metric if self.metric in metrics else (metrics[0] if metrics else None),
                "latency": self.latency if self.latency in LATENCIES else LATENCIES[0],
                "arm": arms or [arm for arm in subject.arms if arm in default],
                "settings": "all" if self.settings == "all" else None,
            }
        )

    @property
    def query(self) -> dict[str, str | list[str]]:
        """As an address has it."""
        return self.model_dump(exclude_none=True, exclude_defaults=True, exclude={"seen"})


Chosen = Annotated[Choice, Query()]
