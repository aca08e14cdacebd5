"""A router somebody wrote for verl, called as verl 0.9.1 calls it, but without Ray."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from app.routing.policy import Ask


class VerlBalancer(Protocol):
    """What verl asks of a class that a `router_config_path` names (`verl/workers/rollout/router.py`, 0.9.1), as far as
    it is asked here.
    """

    def require_acquire_fields(self) -> list[str]:
        """What of a call it wants to know beside its ``request_id``."""
        ...

    def require_release_fields(self) -> list[str]:
        """What it wants to know at the end of one."""
        ...

    def acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        """The chosen server's id and handle."""
        ...

    def release_server(self, server_id: str, **extra: Any) -> None:
        """A call there has ended."""
        ...


class VerlPlugin:
    """verl's pluggable router as a policy.

    verl makes an actor of the class and awaits each call; the class itself is plain Python that is built from the
    servers and the whole of its YAML file, and can be called in place. Raises ValueError for one that cannot.
    """

    def __init__(
        self,
        balancer: Callable[[dict[str, Any], dict[str, Any]], VerlBalancer],
        replicas: int,
        settings: Mapping[str, Any],
    ) -> None:
        if hasattr(balancer, "remote"):
            raise ValueError("the router is an actor class of Ray: name the class that it was made of")
        self._replicas = {str(replica): replica for replica in range(replicas)}
        self._balancer = balancer(dict(self._replicas), dict(settings))
        self._asked = self._balancer.require_acquire_fields()
        self._released = self._balancer.require_release_fields()
        unknown = ({*self._asked} - {"prompt_ids"}) | ({*self._released} - {"request_id"})
        if unknown:
            raise ValueError(f"the router asks for {', '.join(sorted(unknown))}, which a call here does not have")

    def pick(self, ask: Ask) -> int:
        """What the plugin says; raises ValueError if that is no replica."""
        known = {"prompt_ids": list(ask.prompt_token_ids)}
        server, _ = self._balancer.acquire_server(ask.session, **{field: known[field] for field in self._asked})
        if server not in self._replicas:
            raise ValueError(f"the router chose {server!r}, which is none of the replicas")
        return self._replicas[server]

    def release(self, ask: Ask, replica: int) -> None:
        """Tell the plugin."""
        known = {"request_id": ask.session}
        self._balancer.release_server(str(replica), **{field: known[field] for field in self._released})
