"""A router written for verl's interface of 0.9.1."""

from typing import Any

import pytest

from app.routing.policy import Ask
from app.routing.verl_plugin import VerlPlugin


class LongestPromptsFirst:
    """Long prompts to the first server, others to the last; counts what is in flight."""

    def __init__(self, servers: dict[str, Any], config: dict[str, Any]) -> None:
        self.servers = servers
        self.long_tokens = config["long_tokens"]
        self.in_flight: dict[str, str] = {}

    def require_acquire_fields(self) -> list[str]:
        return ["prompt_ids"]

    def require_release_fields(self) -> list[str]:
        return ["request_id"]

    def acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        server = list(self.servers)[0 if len(extra["prompt_ids"]) >= self.long_tokens else -1]
        self.in_flight[request_id] = server
        return server, self.servers[server]

    def release_server(self, server_id: str, **extra: Any) -> None:
        assert self.in_flight.pop(extra["request_id"]) == server_id


def test_a_plugin_is_asked_what_it_wants_to_know() -> None:
    made: list[LongestPromptsFirst] = []

    def make(servers: dict[str, Any], config: dict[str, Any]) -> LongestPromptsFirst:
        made.append(LongestPromptsFirst(servers, config))
        return made[0]

    policy = VerlPlugin(make, replicas=3, settings={"router_class": "theirs", "long_tokens": 4})
    long, short = Ask("long", prompt_token_ids=(1, 2, 3, 4)), Ask("short", prompt_token_ids=(1,))
    assert [policy.pick(long), policy.pick(short)] == [0, 2]
    policy.release(long, 0)
    assert made[0].in_flight == {"short": "2"}


class Lost(LongestPromptsFirst):
    def acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        del request_id, extra
        return "10.0.0.7:8000", None


class Curious(LongestPromptsFirst):
    def require_acquire_fields(self) -> list[str]:
        return ["prompt_ids", "image_data"]


def test_what_cannot_be_called_here_is_refused_and_said() -> None:
    settings = {"long_tokens": 1}
    with pytest.raises(ValueError, match=r"chose '10\.0\.0\.7:8000', which is none of the replicas"):
        VerlPlugin(Lost, 2, settings).pick(Ask("a"))
    with pytest.raises(ValueError, match="asks for image_data, which a call here does not have"):
        VerlPlugin(Curious, 2, settings)

    class Actor(LongestPromptsFirst):
        remote = None

    with pytest.raises(ValueError, match="is an actor class of Ray"):
        VerlPlugin(Actor, 2, settings)
