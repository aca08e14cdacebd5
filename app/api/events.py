"""What happened to an experiment, and what is happening."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from app.api.experiments import Id
from app.errors import Forbidden, InvalidInput, NotFound, Unauthorized, UnreadableSpec
from app.http.admission import Who, require_still_admitted
from app.http.basics import Page, answer
from app.http.problems import list_responses
from app.service.allowance import Allowance
from app.service.feed import Feed, Snapshot
from app.spec.lifecycle import Progress, Status
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 15
GOODBYE_S = 2.0
Message = dict[str, Any]


class EventView(BaseModel):
    """A change of status, or the request to stop what runs: that changes nothing yet."""

    model_config = ConfigDict(from_attributes=True)

    seq: int = Field(description="Its number, from 1, without gaps; the id of the stream's event.", examples=[2])
    at: datetime = Field(description="When.", examples=["2026-01-31T12:00:03Z"])
    from_status: Status | None = Field(description="The status before; null for the first.", examples=["queued"])
    to_status: Status = Field(description="The status after.", examples=["running"])
    attempt: int = Field(description="The attempt it belongs to; 0 before the first.", examples=[1])
    owner: str | None = Field(description="The worker concerned.", examples=["gpu-7-4211"])
    reason: str = Field(description="Why.", examples=["claimed"])
    detail: dict[str, JsonValue] | None = Field(description="The failure, where it is one.", examples=[None])
    actor: str | None = Field(
        description="Who asked for it: a token's name, or `anonymous`; null where nobody did.", examples=["anna"]
    )
    source: str | None = Field(description="The address it was asked from.", examples=["192.0.2.7"])


class EventPage(Page):
    """Every change of status, oldest first."""

    items: tuple[EventView, ...] = Field(description="The changes.")


class ProgressView(BaseModel):
    """Where an experiment is: the stream's `progress` events."""

    status: Status = Field(description="Its status.", examples=["running"])
    attempt: int = Field(description="Its attempt.", examples=[1])
    cancel_requested: bool = Field(description="Whether somebody asked to cancel it.", examples=[False])
    queue_position: int | None = Field(description="Place in the queue, from 1, while it waits.", examples=[None])
    progress: Progress | None = Field(description="How far a running experiment has come.")


_STREAM = (
    "id: 2\r\nevent: status\r\n"
    'data: {"seq": 2, "from_status": "queued", "to_status": "running", "attempt": 1, "reason": "claimed"}\r\n\r\n'
    "event: progress\r\n"
    'data: {"status": "running", "attempt": 1, "progress": {"trials_done": 1, "trials_total": 12}}\r\n\r\n'
)


@router.get(
    "/{experiment_id}/events",
    summary="History, or a live stream",
    response_model=EventPage,
    responses={
        200: {
            "description": "The history as JSON; a live stream if the request accepts `text/event-stream`.",
            "content": {EVENT_STREAM: {"schema": {"type": "string"}, "example": _STREAM}},
        },
        204: {"description": "A stream was resumed that has nothing more to say."},
        **list_responses(NotFound, UnreadableSpec, InvalidInput),
    },
)
async def list_events(
    request: Request,
    caller: Who,
    experiment_id: Id,
    *,
    after: Annotated[int, Query(ge=0, description="Leave out events up to this number.", examples=[0])] = 0,
    last_event_id: Annotated[
        int | None, Header(ge=0, description="Resume a stream behind this event.", examples=[2])
    ] = None,
) -> Response:
    """Every change of status.

    The stream sends `status` events, whose ids resume it, and `progress` events in between. It ends with the
    experiment.
    """
    feed: Feed = request.app.state.feed
    snapshot = await feed.snapshot(ExperimentId(experiment_id))
    seen = max(after, last_event_id or 0)
    if EVENT_STREAM not in request.headers.get("accept", ""):
        new = tuple(EventView.model_validate(event) for event in snapshot.events if event.seq > seen)
        response = answer(request, EventPage(items=new))
        response.headers["Vary"] = "Accept"
        return response
    if snapshot.row.item.status.terminal and (not snapshot.events or snapshot.events[-1].seq <= seen):
        return Response(status_code=204)  # tells a browser not to come back
    allowance: Allowance = request.app.state.allowance
    allowance.require_stream(caller.client)
    messages = _count(allowance, caller.client, _write_messages(feed, ExperimentId(experiment_id), seen))
    messages = _end_with_token(request, messages)
    return _stream(feed, ExperimentId(experiment_id), messages)


async def _count(allowance: Allowance, client: str, messages: AsyncGenerator[Message]) -> AsyncGenerator[Message]:
    with allowance.stream(client):
        async with aclosing(messages):
            async for message in messages:
                yield message


async def _end_with_token(request: Request, messages: AsyncGenerator[Message]) -> AsyncGenerator[Message]:
    """The messages, until the token that asked for them opens nothing any more."""
    async with aclosing(messages):
        async for message in messages:
            try:
                await require_still_admitted(request)
            except (Unauthorized, Forbidden):
                return
            yield message


def _stream(feed: Feed, experiment_id: ExperimentId, messages: AsyncGenerator[Message]) -> Response:
    # Imported here: it brings uvicorn along, which whoever serves this has already.
    from sse_starlette import EventSourceResponse

    stop = anyio.Event()  # set when the server goes
    return EventSourceResponse(
        _wait_until(stop, messages, lambda: feed.end(experiment_id)),
        ping=HEARTBEAT_S,
        headers={"Vary": "Accept"},
        shutdown_event=stop,
        shutdown_grace_period=GOODBYE_S,
    )


async def _wait_until(
    stop: anyio.Event, messages: AsyncGenerator[Message], end: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Message]:
    """The messages, until the server goes: a stream that ends in good order is resumed, a broken one is an error."""

    async def watch() -> None:
        await stop.wait()
        await end()

    watching = asyncio.create_task(watch())
    try:
        async with aclosing(messages):
            async for message in messages:
                yield message
    finally:
        watching.cancel()


async def _write_messages(feed: Feed, experiment_id: ExperimentId, seen: int) -> AsyncGenerator[Message]:
    told: ProgressView | None = None
    async with aclosing(feed.snapshots(experiment_id)) as snapshots:
        async for snapshot in snapshots:
            for event in snapshot.events:
                if event.seq > seen:
                    seen = event.seq
                    yield {
                        "id": str(event.seq),
                        "event": "status",
                        "data": EventView.model_validate(event).model_dump_json(),
                    }
            now = _write_progress(snapshot)
            if now != told:
                told = now
                yield {"event": "progress", "data": now.model_dump_json()}


def _write_progress(snapshot: Snapshot) -> ProgressView:
    item = snapshot.row.item
    return ProgressView(
        status=item.status,
        attempt=item.attempt,
        cancel_requested=item.cancel_requested,
        queue_position=snapshot.row.queue_position,
        progress=item.progress,
    )
