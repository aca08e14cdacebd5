"""rollout-lab export"""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.cli.common import ExperimentId, Url, say, service_url
from app.errors import Unreachable

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def export(
    experiment_id: ExperimentId,
    html: Annotated[Path, typer.Option(help="Write the report as one HTML file; - is stdout.")],
    url: Url = "",
) -> None:
    """Fetch an experiment's report: one file that needs no network and prints."""
    from app.client import Client

    with Client(service_url(url)) as client:
        client.experiment(experiment_id)  # says what is wrong in the API's words, where anything is
        report = _report(client.page_of(experiment_id))
    if str(html) == "-":
        sys.stdout.buffer.write(report)
    else:
        html.write_bytes(report)
        say(f"Wrote {html} ({len(report):,} bytes).")


def _report(page: str) -> bytes:
    import httpx

    try:
        # A proxy has no way to this host.
        response = httpx.get(f"{page}/report.html", timeout=120.0, trust_env=urlsplit(page).hostname not in _LOOPBACK)
    except httpx.HTTPError as error:
        raise Unreachable(f"no answer from {page}: {error}") from error
    if not response.is_success:
        raise Unreachable(f"{page} answered {response.status_code} instead of a report")
    return response.content
