"""The service, seen from elsewhere."""

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from app.errors import FieldError, InvalidInput, Refused, RolloutLabError, Unreachable
from app.version import VERSION

JsonObject = dict[str, Any]
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Client:
    """A connection to one service."""

    def __init__(self, url: str, *, token: str = "", timeout_s: float = 120.0) -> None:
        _require_address(url)
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0)),  # a service that starts takes its time
            headers={"User-Agent": f"rollout-lab/{VERSION}"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            trust_env=urlsplit(url).hostname not in _LOOPBACK,  # a proxy has no way to this host
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def page_of(self, experiment_id: str) -> str:
        """Address of the experiment's page."""
        return f"{self.url}/experiments/{_step(experiment_id)}"

    def submit(self, document: object, *, idempotency_key: str | None = None) -> JsonObject:
        """Queue an experiment."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._object("POST", "/v1/experiments", content=_read_json(document), headers=headers)

    def rehearse(self, document: object) -> JsonObject:
        """What an experiment would do and cost."""
        return self._object("POST", "/v1/experiments", content=_read_json(document), params={"dry_run": "true"})

    def experiment(self, experiment_id: str) -> JsonObject:
        """All about an experiment but its results."""
        return self._object("GET", f"/v1/experiments/{_step(experiment_id)}")

    def results(self, experiment_id: str) -> JsonObject:
        """Its results, partial while it runs."""
        return self._object("GET", f"/v1/experiments/{_step(experiment_id)}/results")

    def report(self, experiment_id: str) -> bytes:
        """Its report, one HTML file."""
        return self._answer("GET", f"/experiments/{_step(experiment_id)}/report.html").content

    def cancel(self, experiment_id: str) -> JsonObject:
        """Ask for its end."""
        return self._object("POST", f"/v1/experiments/{_step(experiment_id)}/cancel")

    def retry(self, experiment_id: str) -> JsonObject:
        """Queue what failed or was cancelled once more."""
        return self._object("POST", f"/v1/experiments/{_step(experiment_id)}/retry")

    def experiments(self, limit: int, **filters: Any) -> Iterator[JsonObject]:
        """The first that pass the filters."""
        cursor: str | None = None
        while limit > 0:
            asked = {key: value for key, value in filters.items() if value} | {"limit": min(limit, 200)}
            page = self._object("GET", "/v1/experiments", params=asked | ({"cursor": cursor} if cursor else {}))
            yield from page["items"]
            limit -= len(page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def readiness(self) -> JsonObject:
        """What the service says about itself, ready or not."""
        return self._object("GET", "/readyz", accepted=(200, 503))

    def _object(
        self, method: str, path: str, *, accepted: tuple[int, ...] = (200, 201, 202), **request: Any
    ) -> JsonObject:
        try:
            found = self._answer(method, path, accepted=accepted, **request).json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"{self.url} answers, but not as this service does")
        return found

    def _answer(
        self, method: str, path: str, *, accepted: tuple[int, ...] = (200, 201, 202), **request: Any
    ) -> httpx.Response:
        if "content" in request:
            request["headers"] = {"Content-Type": "application/json", **request.get("headers", {})}
        try:
            response = self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise Unreachable(f"no answer from {self.url}: {error}") from error
        if response.status_code not in accepted:
            raise _build_failure(self.url, response)
        return response


def _step(name: str) -> str:
    """Anything as one step of a path."""
    return quote(name, safe="")


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        complete = False
    if not complete:
        raise InvalidInput(f"{url!r} is not the address of a service, like http://127.0.0.1:8321")


def _read_json(document: object) -> bytes:
    return json.dumps(document).encode()


def _build_failure(url: str, response: httpx.Response) -> RolloutLabError:
    try:
        problem = response.json()
        detail = str(problem["detail"])
        errors = tuple(
            FieldError(str(error.get("pointer") or error.get("parameter") or ""), str(error["detail"]))
            for error in problem.get("errors") or ()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, errors = f"{url} answered {response.status_code} without a reason", ()
    if response.status_code >= 500:
        return Unreachable(f"{url}: {detail}")
    return Refused(response.status_code, detail, errors)
