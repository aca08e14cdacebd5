"""What `python scripts/inventory.py` has written: the licences, and the bill of materials."""

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([a-z0-9-]+) \| ([^ ]+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
WITHOUT = "not installed where this was written"


def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """Licence and locks of every package and version."""
    found = ROW.findall((ROOT / "docs" / "licences.md").read_text())
    return {
        (name, version): (licence, locks) for name, version, licence, locks in found if name not in {"package", "file"}
    }


def locked(*locks: str) -> set[tuple[str, str]]:
    """Names and versions in these locks."""
    texts = ((ROOT / "locks" / f"{lock}.txt").read_text() for lock in locks)
    return {pair for text in texts for pair in re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE)}


def test_the_list_names_what_is_locked_and_nothing_else() -> None:
    assert set(rows()) == locked("base", "cpu", "gpu", "torch-cpu", "dev")


def test_nothing_that_runs_is_under_the_gpl() -> None:
    """Under the LGPL are libraries, unchanged, that whoever runs the service can exchange."""
    copyleft = {
        name: licence
        for (name, _), (licence, locks) in rows().items()
        if locks != "dev only" and re.search(r"GPL|GNU|General Public|EUPL|SSPL|Commons Clause|BUSL", licence)
    }
    assert copyleft == {
        "psycopg": "LGPL-3.0-only",
        "psycopg-binary": "LGPL-3.0-only",
        "pycountry": "LGPL-2.1-only",
    }


def test_everything_installed_has_a_licence_in_the_list() -> None:
    unknown = []
    for (name, _), (licence, _) in rows().items():
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        if licence in {WITHOUT, "unknown", ""}:
            unknown.append(name)
    assert unknown == []


def test_the_bill_of_materials_holds_what_can_run_and_nothing_else() -> None:
    document = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    found = {(component["name"], component["version"]) for component in document["components"]}
    assert found == locked("base", "cpu", "gpu", "torch-cpu")
