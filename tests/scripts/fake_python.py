"""Stands in for a Python interpreter in test_setup: another version, no network, and a pip that only keeps a diary."""

import ctypes
import os
import platform
import sys
import time
from pathlib import Path
from shutil import copy
from typing import NoReturn

LACKS = os.environ.get("FAKE_LACKS", "").split()


def pretend(version: str) -> None:
    """Make this interpreter answer like one of that version, without what the test says it lacks."""
    vars(sys)["version_info"] = tuple(map(int, version.split(".")))
    vars(platform)["python_version"] = lambda: version
    if "ensurepip" in LACKS:
        vars(sys)["modules"]["ensurepip"] = None
    if "libnuma" in LACKS:
        vars(ctypes)["CDLL"] = missing


def missing(name: str) -> NoReturn:
    """No such library."""
    raise OSError(name)


def install(arguments: list[str]) -> None:
    """What pip would install goes to the diary."""
    time.sleep(float(os.environ.get("FAKE_INSTALL_S", "0")))
    options = {"-qq", "--disable-pip-version-check", "--no-input"}
    with Path(os.environ["FAKE_DIARY"]).open("a") as diary:
        print(*(argument for argument in arguments if argument not in options), file=diary)
    asked = " ".join(arguments)
    if "torch" in LACKS and "torch==" in asked and "--extra-index-url" not in asked:
        sys.exit(os.environ.get("FAKE_NOT_FOUND", "ERROR: No matching distribution found for torch==2.13.0+cpu"))
    if "disk" in LACKS:
        sys.exit("ERROR: No space left on device")
    if "network" in LACKS and "--requirement" in asked:
        sys.exit("ERROR: the connection broke")


def main(executable: str, version: str, *arguments: str) -> None:
    """Act as that executable."""
    pretend(version)
    match arguments:
        case ["-c", code]:
            exec(code, {})  # noqa: S102 - it is what an interpreter does with -c
        case ["-m", "venv", "--clear", target]:
            python = Path(target, "bin", "python")
            python.parent.mkdir(parents=True, exist_ok=True)
            copy(executable, python)
            with Path(os.environ["FAKE_DIARY"]).open("a") as diary:
                print("venv", version, file=diary)
        case ["-m", "pip", "--version"]:
            pass
        case ["-m", "pip", "install", *rest]:
            install(rest)
        case _:
            sys.exit(f"unexpected: {arguments}")


if __name__ == "__main__":
    main(*sys.argv[1:])
