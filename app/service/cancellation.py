"""Asking for an experiment's end."""

from app.errors import Forbidden
from app.service.access import Caller
from app.spec.lifecycle import Status
from app.store import experiments, queue
from app.store.actors import ANONYMOUS
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tokens import Scope


def cancel(db: Database, experiment_id: ExperimentId, caller: Caller) -> Status:
    """Cancel it, or ask its worker to; the status after it. Forbidden where it is another's, save to admins."""
    owner = experiments.get_item(db, experiment_id).submitted_by
    if owner not in (ANONYMOUS, caller.name) and not caller.may(Scope.ADMIN):
        raise Forbidden(f"experiment {experiment_id} is {owner}'s: to cancel it takes a token with the scope admin")
    return queue.request_cancel(db, experiment_id, by=caller.actor)
