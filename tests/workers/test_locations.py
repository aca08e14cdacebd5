"""What a spec names, found on this host behind links."""

from pathlib import Path
from typing import Any

import pytest

from app.errors import EngineStartFailed, InvalidWorkload, NotPermitted
from app.spec.permits import Permits
from app.spec.resolution import ResolvedExperiment, resolve
from tests.support.builders import a_spec
from workers.locations import locate
from workers.prompts import open_prompts


def found(permits: Permits, **changes: Any) -> ResolvedExperiment:
    spec = a_spec(**changes)
    return locate(spec, resolve(spec), permits)


def test_a_named_environment_is_its_interpreter() -> None:
    arm = {"name": "a", "profile": "vllm-sync", "environment": {"python": "nightly"}}
    permits = Permits(environments={"nightly": "/opt/nightly/bin/python"})
    assert found(permits, arms=[arm]).arms[0].environment.python == "/opt/nightly/bin/python"


def test_a_model_s_folder_is_found_behind_links_and_only_below_a_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "models", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    (root / "same").symlink_to(root / "a")
    (root / "out").symlink_to(outside)
    permits = Permits(model_roots=(str(root),))
    assert found(permits, model={"id": str(root / "same")}).arms[0].model.id == str(root / "a")
    for name in ("out", "none"):
        with pytest.raises(EngineStartFailed, match="no such folder below"):
            found(permits, model={"id": str(root / name)})


def test_a_folder_where_the_worker_runs_is_not_taken_for_a_hub_s_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotPermitted, match="lies where the worker runs"):
        found(Permits(), model={"id": "org/model"})
    assert found(Permits(), model={"id": "org/other"}).arms[0].model.id == "org/other"


def test_a_link_out_of_the_folders_of_prompts_is_not_followed(tmp_path: Path) -> None:
    root, secret = tmp_path / "prompts", tmp_path / "secret.jsonl"
    root.mkdir()
    secret.write_text("secret")
    (root / "link.jsonl").symlink_to(secret)
    (root / "fine.jsonl").write_text("fine")
    with pytest.raises(InvalidWorkload, match="leads out of"):
        open_prompts(str(root / "link.jsonl"), (str(root),))
    with pytest.raises(InvalidWorkload, match="leads out of"):
        open_prompts("link.jsonl", (str(root),))
    with open_prompts("fine.jsonl", (str(root),)) as file:
        assert file.read() == b"fine"
