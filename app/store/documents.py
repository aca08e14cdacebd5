"""Stored documents, whatever version of this project wrote them."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.errors import FailureCode, UnreadableSpec
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure
from app.store.ids import ExperimentId

M = TypeVar("M", bound=BaseModel)

_MOST_NAMED = 5


def parse_spec(experiment_id: ExperimentId, document: object) -> Experiment:
    """The spec of an experiment; UnreadableSpec if this version cannot read it."""
    try:
        return Experiment.model_validate(document)
    except ValidationError as error:
        fields = sorted({".".join(map(str, details["loc"])) for details in error.errors()})
        more = f" and {len(fields) - _MOST_NAMED} more" if len(fields) > _MOST_NAMED else ""
        raise UnreadableSpec(
            f"the spec of experiment {experiment_id} was written by another version of Rollout Lab; this one cannot "
            f"read {error.error_count()} of its fields: {', '.join(fields[:_MOST_NAMED])}{more}"
        ) from None


def readable(model: type[M], document: object) -> M | None:
    """A document that others can do without; None where there is none that this version can read."""
    try:
        return None if document is None else model.model_validate(document)
    except ValidationError:
        return None


def parse_failure(document: dict[str, Any] | None) -> Failure | None:
    """Why an attempt failed, in the words of whoever wrote it down."""
    if document is None:
        return None
    said = document.get("detail")
    return readable(Failure, document) or Failure(
        code=FailureCode.INTERNAL, detail=said if isinstance(said, str) else json.dumps(document)
    )
