"""What a client cannot do to the service that is shipped."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx
import pytest

from app import protocol
from app.store import queue
from benchmarks.support.service import Service
from tests.support.builders import a_simulated_spec

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def connected(service: Service) -> socket.socket:
    url = httpx.URL(service.url)
    return socket.create_connection((url.host, url.port or 0), timeout=60.0)


def read_to_the_end(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_fifteen_hundred_half_sent_requests_are_gone_in_a_moment(service: Service) -> None:
    with ExitStack() as stack:
        began = time.monotonic()
        halves = [stack.enter_context(connected(service)) for _ in range(1500)]
        for half in halves:
            half.sendall(HEAD)
        assert service.http.get("/healthz").is_success, "others are served meanwhile"
        answers = [read_to_the_end(half) for half in halves]
        assert time.monotonic() - began < protocol.HEAD_S + 10.0
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)


@pytest.mark.parametrize("rest", [b"", b"X: y\r\n", b"\r\n"])
def test_a_trickle_does_not_buy_time(service: Service, rest: bytes) -> None:
    with connected(service) as one:
        began = time.monotonic()
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert one.recv(65536).startswith(b"HTTP/1.1 200 ")
        one.sendall(rest or b"G")
        while time.monotonic() - began < protocol.HEAD_S + 5.0:
            try:
                one.sendall(rest or b"E")
            except OSError:
                break
            time.sleep(0.5)
        assert time.monotonic() - began < protocol.HEAD_S + 5.0


@pytest.mark.parametrize(
    "head",
    [
        lambda: b"X: " + b"x" * (1 << 20),
        lambda: b"".join(b"X-%d: y\r\n" % n for n in range(50_000)),
        lambda: b"Cookie: " + b"x" * (protocol.MOST_HEAD_BYTES - 40) + b"\r\nY: z\r\n\r\n",
    ],
    ids=["one long", "many short", "just over"],
)
def test_a_head_without_end_is_not_read(service: Service, head: Callable[[], bytes]) -> None:
    with connected(service) as one:
        one.sendall(HEAD)
        try:
            one.sendall(head())
        except OSError:
            return  # it hung up in the middle
        answer = read_to_the_end(one)
    assert answer in {b""} or answer.startswith(b"HTTP/1.1 431 ")


def test_a_head_of_ordinary_size_is(service: Service) -> None:
    response = httpx.get(f"{service.url}/healthz", headers={"Cookie": "x" * 32_000}, trust_env=False)
    assert response.is_success


def test_a_body_and_an_answer_take_their_time(service: Service) -> None:
    """A stream outlives the time a head may take."""
    experiment = queue.enqueue(service.db, a_simulated_spec()).experiment_id
    with service.http.stream(
        "GET", f"/v1/experiments/{experiment}/events", headers={"Accept": "text/event-stream"}, timeout=60.0
    ) as stream:
        lines = stream.iter_lines()
        assert next(lines)
        time.sleep(protocol.HEAD_S + 1.0)
        queue.request_cancel(service.db, experiment)
        assert any("cancelled" in line for line in lines)


def test_a_connection_that_asks_nothing_is_closed_without_a_word(service: Service) -> None:
    """Browsers open some in advance, and would take a word for the answer to what they ask later."""
    with connected(service) as one:
        assert read_to_the_end(one) == b""


def test_nonsense_is_a_bad_request(service: Service) -> None:
    with connected(service) as one:
        one.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert read_to_the_end(one).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/healthz", "/v1/experiments", "/experiments", "/metrics", "/openapi.json"])
def test_head_is_get_without_a_body(service: Service, path: str) -> None:
    got, head = service.http.get(path), service.http.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    if path == "/healthz":
        assert head.headers["content-length"] == got.headers["content-length"]


def test_head_of_a_stream_has_an_end(service: Service) -> None:
    experiment = queue.enqueue(service.db, a_simulated_spec()).experiment_id
    found = service.http.head(
        f"/v1/experiments/{experiment}/events", headers={"Accept": "text/event-stream"}, timeout=10.0
    )
    assert found.headers["content-type"].startswith("text/event-stream")
    assert service.http.get("/healthz").is_success
    queue.request_cancel(service.db, experiment)
