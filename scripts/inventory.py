"""python scripts/inventory.py: writes docs/licences.md and docs/sbom.cdx.json from the locks and what is installed.

Run it in the environment of `scripts/setup dev` after scripts/lock. Nothing is asked of the network.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
RUN_TIME = ("base", "torch-cpu", "cpu", "gpu")
# Their metadata name none; this is what the licence file in each says.
READ_BY_HAND = {"oss-harmony": "Apache-2.0", "setuptools": "MIT"}
UNKNOWN = "not installed where this was written"
VENDOR = ("app/pages/static/vendor", "tests/pages/vendor")


def locked(lock: str) -> list[tuple[str, str]]:
    """Names and versions in one lock."""
    text = (ROOT / "locks" / f"{lock}.txt").read_text()
    return re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE)


def licence_of(name: str) -> str:
    """What an installed package says of itself."""
    try:
        told = distribution(name).metadata
    except PackageNotFoundError:
        return UNKNOWN
    classified = [line for line in told.get_all("Classifier") or () if line.startswith("License ::")]
    names = [line.rpartition(" :: ")[2] for line in classified]
    expression, free = (
        "".join(told.get_all(field) or ()).strip().partition("\n")[0] for field in ("License-Expression", "License")
    )
    return expression or "; ".join(names) or free or READ_BY_HAND.get(name, "unknown")


def packages() -> dict[tuple[str, str], list[str]]:
    """Every locked package with the locks it is in."""
    found: dict[tuple[str, str], list[str]] = {}
    for lock in (*RUN_TIME, "dev"):
        for package in locked(lock):
            where = found.setdefault(package, [])
            if lock not in where:
                where.append(lock)
    return dict(sorted(found.items()))


def licences() -> str:
    """The list for people."""
    lines = [
        "# Licences of what is installed or shipped with Rollout Lab",
        "",
        "Written by `python scripts/inventory.py` from the locks and the metadata of the installed packages. A package",
        f"that is “{UNKNOWN}” is for GPUs, another system or another Python.",
        "",
        "| package | version | licence | locks |",
        "|---|---|---|---|",
    ]
    for (name, version), where in packages().items():
        told = " and ".join(where) if where != ["dev"] else "dev only"
        lines.append(f"| {name} | {version} | {licence_of(name)} | {told} |")
    lines += ["", "## Files of other projects", "", "| file | package | version | licence |", "|---|---|---|---|"]
    for folder in VENDOR:
        for entry in tomllib.loads((ROOT / folder / "VENDORED.toml").read_text())["file"]:
            told = f"`{folder}/{entry['file']}` | {entry['package']} | {entry['version']} | {entry['licence']}"
            lines.append(f"| {told} |")
    return "\n".join(lines) + "\n"


def bill_of_materials() -> str:
    """What may be installed to run the service, as CycloneDX 1.6; the same for the same locks."""
    made = LicenseFactory()
    bom = Bom(serial_number=None)
    for (name, version), where in packages().items():
        if where == ["dev"]:
            continue
        told = licence_of(name)
        bom.components.add(
            Component(
                name=name,
                version=version,
                type=ComponentType.LIBRARY,
                bom_ref=f"{name}=={version}",
                purl=PackageURL("pypi", None, name, version),
                licenses=[made.make_from_string(told)] if told != UNKNOWN else [],
                properties=[Property(name="rollout-lab:locks", value=" ".join(where))],
            )
        )
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    # The time and the number of this writing would differ though nothing else does.
    return re.sub(r'\n +"(?:timestamp|serialNumber)": "[^"]*",?', "", text) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "licences.md").write_text(licences())
    (ROOT / "docs" / "sbom.cdx.json").write_text(bill_of_materials())
