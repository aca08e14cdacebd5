"""scripts/setup, with interpreters that only pretend to install."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0+cpu"
LOCKED = "--require-hashes --requirement"
BUILT = "--no-build-isolation --editable ."
PYTORCH_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass
class Checkout:
    """A copy of what scripts/setup reads, in a directory with a space in its name, and the PATH it runs with."""

    directory: Path
    binaries: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def diary(self) -> Path:
        return self.directory.parent / "diary"

    def provide_python(self, name: str, version: str) -> None:
        """Put an interpreter of that version on the PATH."""
        fake = ROOT / "tests" / "scripts" / "fake_python.py"
        self._provide(name, f"exec '{sys.executable}' -IS '{fake}' \"$0\" {version} \"$@\"")

    def provide_nvidia_smi(self, listing: str) -> None:
        self._provide("nvidia-smi", f"echo '{listing}'")

    def _provide(self, name: str, line: str) -> None:
        (self.binaries / name).write_text(f"#!/usr/bin/env bash\n{line}\n")
        (self.binaries / name).chmod(0o755)

    def start(self, what: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.directory / "scripts" / "setup", what],
            cwd="/",
            env={"PATH": f"{self.binaries}:/usr/bin:/bin", "FAKE_DIARY": str(self.diary), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def setup(self, what: str, **environment: str) -> str:
        """Run it; returns the environment that it names."""
        process = self.start(what, **environment)
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        return Path(out.strip()).name

    def refuse(self, what: str, **environment: str) -> str:
        """Run it where it must fail; returns what it says."""
        process = self.start(what, **environment)
        out, errors = process.communicate()
        assert process.returncode != 0
        assert out == ""
        return errors

    def installed(self) -> list[str]:
        """What pip and venv did since the last call."""
        lines = self.diary.read_text().splitlines() if self.diary.exists() else []
        self.diary.unlink(missing_ok=True)
        return [line.replace(f"{self.directory}", ".").removeprefix("--no-deps ") for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    directory = tmp_path / "a checkout"
    for part in ("scripts", "locks"):
        (directory / part).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", directory / "scripts")
    (directory / "pyproject.toml").write_text("[project]\n")
    (directory / "locks" / "cpu.txt").write_text("ray==2.60.0\n")
    (directory / "locks" / "torch-cpu.txt").write_text(f"{TORCH}\n")
    (directory / "locks" / "dev.txt").write_text("pytest==9.2.0\nray==2.60.0\n")
    (directory / "locks" / "gpu.txt").write_text("torch==2.14.0\nvllm==0.33.0\n")
    (tmp_path / "bin").mkdir()
    made = Checkout(directory, tmp_path / "bin")
    made.provide_python("python3", "3.11.7")
    return made


def test_the_first_run_installs_torch_alone_then_the_lock_then_the_project(checkout: Checkout) -> None:
    assert checkout.setup("run") == ".venv"
    assert checkout.installed() == [
        "venv 3.11.7",
        TORCH,
        f"{LOCKED} ./locks/cpu.txt",
        BUILT,
    ]


def test_the_second_run_installs_nothing(checkout: Checkout) -> None:
    checkout.setup("dev")
    checkout.installed()
    assert checkout.setup("dev") == ".venv"
    assert checkout.installed() == []


@pytest.mark.parametrize("changed", ["locks/dev.txt", "locks/torch-cpu.txt", "pyproject.toml"])
def test_what_changed_is_installed_into_the_environment_that_is_there(checkout: Checkout, changed: str) -> None:
    checkout.setup("dev")
    checkout.installed()
    file = checkout.directory / changed
    file.write_text(f"{file.read_text().strip()}\n\n")
    checkout.setup("dev")
    assert checkout.installed() == [
        TORCH,
        f"{LOCKED} ./locks/dev.txt",
        BUILT,
    ]


def test_another_python_gets_a_fresh_environment(checkout: Checkout) -> None:
    checkout.setup("run")
    checkout.installed()
    checkout.provide_python("python3", "3.12.1")
    checkout.setup("run")
    assert checkout.installed()[0] == "venv 3.12.1"


def test_a_moved_checkout_is_installed_again(checkout: Checkout) -> None:
    checkout.setup("run")
    checkout.installed()
    checkout.directory = checkout.directory.rename(checkout.directory.with_name("moved"))
    checkout.setup("run")
    assert BUILT in checkout.installed()


def test_an_install_that_broke_off_is_not_taken_for_finished(checkout: Checkout) -> None:
    assert "the connection broke" in checkout.refuse("run", FAKE_LACKS="network")
    checkout.installed()
    checkout.setup("run")
    assert f"{LOCKED} ./locks/cpu.txt" in checkout.installed()


def test_an_upgrade_that_broke_off_is_not_taken_for_finished(checkout: Checkout) -> None:
    checkout.setup("run")
    checkout.refuse("dev", FAKE_LACKS="network")
    checkout.installed()
    checkout.setup("run")
    assert f"{LOCKED} ./locks/cpu.txt" in checkout.installed()


def test_the_demo_runs_in_the_environment_of_the_tests(checkout: Checkout) -> None:
    checkout.setup("dev")
    checkout.installed()
    assert checkout.setup("run") == ".venv"
    assert checkout.installed() == []


def test_the_tests_add_to_the_environment_of_the_demo(checkout: Checkout) -> None:
    checkout.setup("run")
    checkout.installed()
    checkout.setup("dev")
    assert checkout.installed() == [
        TORCH,
        f"{LOCKED} ./locks/dev.txt",
        BUILT,
    ]


def test_a_gpu_gets_an_environment_of_its_own(checkout: Checkout) -> None:
    checkout.provide_nvidia_smi("GPU 0: NVIDIA H200 (UUID: GPU-0)")
    assert checkout.setup("run") == ".venv-gpu"
    assert checkout.installed() == [
        "venv 3.11.7",
        f"{LOCKED} ./locks/gpu.txt",
        BUILT,
    ]


def test_a_driver_without_a_gpu_is_no_gpu(checkout: Checkout) -> None:
    checkout.provide_nvidia_smi("No devices were found")
    assert checkout.setup("run") == ".venv"


def test_the_tests_use_the_cpu_beside_a_gpu(checkout: Checkout) -> None:
    checkout.provide_nvidia_smi("GPU 0: NVIDIA H200 (UUID: GPU-0)")
    assert checkout.setup("dev") == ".venv"


@pytest.mark.parametrize(
    "error", ["ERROR: No matching distribution found for torch==2.13.0+cpu", "ERROR: ResolutionImpossible: for help…"]
)
def test_only_torch_and_only_when_it_is_missing_comes_from_pytorchs_index(checkout: Checkout, error: str) -> None:
    checkout.setup("run", FAKE_LACKS="torch", FAKE_NOT_FOUND=error)
    assert checkout.installed() == [
        "venv 3.11.7",
        TORCH,
        f"--extra-index-url {PYTORCH_INDEX} {TORCH}",
        f"{LOCKED} ./locks/cpu.txt",
        BUILT,
    ]


def test_another_failure_of_pip_is_shown_and_not_tried_elsewhere(checkout: Checkout) -> None:
    assert "No space left on device" in checkout.refuse("run", FAKE_LACKS="disk")
    assert checkout.installed() == ["venv 3.11.7", TORCH]


@pytest.mark.parametrize("version", ["3.10.14", "3.14.0"])
def test_an_unsupported_python_is_refused_by_its_version(checkout: Checkout, version: str) -> None:
    checkout.provide_python("unsupported", version)
    said = checkout.refuse("run", PYTHON="unsupported")
    assert f"Python 3.11, 3.12 or 3.13 is needed, but unsupported is {version}" in said


def test_a_supported_python_is_found_beside_an_old_one(checkout: Checkout) -> None:
    checkout.provide_python("python3", "3.9.2")
    checkout.provide_python("python3.13", "3.13.1")
    checkout.setup("run")
    assert checkout.installed()[0] == "venv 3.13.1"


@pytest.mark.parametrize(("lacks", "package"), [("ensurepip", "python3-venv"), ("libnuma", "libnuma1")])
def test_what_the_system_lacks_is_named_with_its_package(checkout: Checkout, lacks: str, package: str) -> None:
    if lacks == "libnuma" and os.uname().machine != "x86_64":
        pytest.skip("only the x86_64 build loads libnuma")
    assert f"apt-get install {package}" in checkout.refuse("run", FAKE_LACKS=lacks)
    assert checkout.installed() == []


def test_two_runs_at_once_install_once(checkout: Checkout) -> None:
    runs = [checkout.start("run", FAKE_INSTALL_S="0.2") for _ in range(2)]
    for run in runs:
        run.communicate()
    assert [run.returncode for run in runs] == [0, 0]
    assert checkout.installed().count(BUILT) == 1
