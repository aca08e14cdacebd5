"""What a submitted experiment looks like in the database."""

import hashlib
import json
from typing import Any

from pydantic import ValidationError

from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.resolution import resolve
from app.store.actors import NOBODY, Actor
from app.store.ids import ExperimentId, make_experiment_id


def build_row(
    spec: Experiment, idempotency_key: str | None, retry_of: ExperimentId | None, by: Actor = NOBODY
) -> dict[str, Any]:
    """The row of a new experiment, save its times; InvalidInput if it contradicts itself."""
    resolved = resolve(spec)
    document = _write_as_submitted(spec)
    return {
        "id": make_experiment_id(),
        "version": 1,
        "name": spec.name,
        "labels": spec.labels,
        "model": resolved.arms[0].model.id,
        "simulated": resolved.simulated,
        "spec": document,
        "retry_of": retry_of,
        "idempotency_key": idempotency_key,
        "request_sha256": None if idempotency_key is None else _hash_request(document, retry_of),
        "status": Status.QUEUED,
        "priority": spec.limits.priority,
        "attempt": 0,
        "retry_on_loss": spec.limits.retry_on_loss,
        "losses": 0,
        "submitted_by": by.name,
    }


def _write_as_submitted(spec: Experiment) -> dict[str, Any]:
    """Only what was said: an engine setting that is absent means something else than an explicit null."""
    document = spec.model_dump(mode="json", exclude_unset=True)
    try:
        same = Experiment.model_validate(document) == spec
    except ValidationError:
        same = False
    if not same:
        raise ValueError("the spec does not survive being written down; were its parts changed without validation?")
    return document


def _hash_request(document: dict[str, Any], retry_of: ExperimentId | None) -> str:
    request = {"retry_of": retry_of, "spec": document}
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
