"""A batch's samples in contiguous parts of one length, a part for each replica."""

from app.routing.policy import Ask, find_part


class Even:
    """verl's sync rollout up to 0.6.1: ``dispatch_nd_compute_dataproto`` (`verl/single_controller/base/decorator.py`)
    splits a batch with ``DataProto.chunk`` over the ranks of the mesh ``rollout``.
    """

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def pick(self, ask: Ask) -> int:
        """The part of the batch in which the call's place lies."""
        return find_part(ask.place, ask.calls, self._replicas)

    def release(self, ask: Ask, replica: int) -> None:
        """Nothing to learn."""
