"""What `python scripts/inventory.py` has written: the licences, and the bill of materials."""

import json
import re
from pathlib import Path

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([a-z0-9-]+) \| ([^ ]+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
WITHOUT = "not installed where this was written"
# Where CI runs and the list is written; what another system or Python needs is not there to be asked.
HERE = {"sys_platform": "linux", "platform_machine": "x86_64", "python_full_version": "3.11.0"}


def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """Licence and locks of every package and version."""
    found = ROW.findall((ROOT / "docs" / "licences.md").read_text())
    return {
        (name, version): (licence, locks) for name, version, licence, locks in found if name not in {"package", "file"}
    }


def locked(*locks: str) -> dict[tuple[str, str], str]:
    """Names and versions in these locks, and the marker of each, if it has one."""
    texts = [(ROOT / "locks" / f"{lock}.txt").read_text() for lock in locks]
    lines = re.findall(r"^([a-z0-9-]+)==([^\s;]+)(?: ; ([^\\\n]+))?", "\n".join(texts), re.MULTILINE)
    return {(name, version): marker for name, version, marker in lines}


def test_the_list_names_what_is_locked_and_nothing_else() -> None:
    assert rows().keys() == locked("base", "cpu", "gpu", "torch-cpu", "dev").keys()


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


def test_all_that_the_checks_install_has_a_licence_in_the_list() -> None:
    licences = {package: licence for package, (licence, _) in rows().items()}
    installed = [
        package for package, marker in locked("torch-cpu", "dev").items() if not marker or Marker(marker).evaluate(HERE)
    ]
    assert len(installed) > 100
    assert [package for package in installed if licences[package] in {WITHOUT, "unknown", ""}] == []


def test_the_bill_of_materials_holds_what_can_run_and_nothing_else() -> None:
    document = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    found = {(component["name"], component["version"]) for component in document["components"]}
    assert found == locked("base", "cpu", "gpu", "torch-cpu").keys()
