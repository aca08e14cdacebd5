"""rollout-lab export"""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.entry import app
from app.errors import Refused, Unreachable
from app.launch import find_free_port
from benchmarks.support.service import Service
from tests.support.stories import Lab


def test_a_report_is_written_to_a_file(service: Service, lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["export", lab["slower"], "--html", str(file), "--url", service.url])
    assert done.exit_code == 0, done.output
    assert file.read_text().lstrip().startswith("<!doctype html>")
    assert f"Wrote {file}" in done.output


def test_a_report_goes_to_stdout_too(service: Service, lab: Lab) -> None:
    done = CliRunner().invoke(app, ["export", lab["slower"], "--html", "-", "--url", service.url])
    assert "<h1>" in done.stdout


def test_an_unknown_experiment_is_refused(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["export", "nobody", "--html", str(file), "--url", service.url])
    assert isinstance(done.exception, Refused)
    assert not file.exists()


def test_a_service_that_is_away_is_unreachable(lab: Lab, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{find_free_port('127.0.0.1', 0)}"
    arguments = ["export", lab["slower"], "--html", str(tmp_path / "x"), "--url", url]
    with pytest.raises(Unreachable):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
