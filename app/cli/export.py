"""rollout-lab export"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import ExperimentId, Url, connect, say


def export(
    experiment_id: ExperimentId,
    html: Annotated[Path, typer.Option(help="Write the report as one HTML file; - is stdout.")],
    url: Url = "",
) -> None:
    """Fetch an experiment's report: one file that needs no network and prints."""
    with connect(url) as client:
        client.experiment(experiment_id)  # says what is wrong in the API's words, where anything is
        report = client.report(experiment_id)
    if str(html) == "-":
        sys.stdout.buffer.write(report)
    else:
        html.write_bytes(report)
        say(f"Wrote {html} ({len(report):,} bytes).")
