"""What the house promises, and a reader relies on."""

import re
import tomllib
from pathlib import Path

import pytest

from app import errors

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("app/**/*.py"), *ROOT.glob("workers/**/*.py"), *ROOT.glob("migrations/**/*.py")])
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
LONGEST_MODULE = 400


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_type_is_ignored_and_no_module_does_too_much(path: Path) -> None:
    text = path.read_text()
    assert "type: ignore" not in text
    assert len(text.splitlines()) <= LONGEST_MODULE


def test_every_folder_of_python_is_type_checked() -> None:
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    assert {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[a-z]*/**/*.py")} == set(checked)


def test_every_error_stands_in_the_one_tree() -> None:
    an_error = re.compile(rf"^class \w+\((?:{'|'.join(ERRORS)})\):", re.MULTILINE)
    assert {path.relative_to(ROOT).as_posix() for path in SOURCES if an_error.search(path.read_text())} == {
        "app/errors.py"
    }


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"─ (\w+)", errors.__doc__ or "")
    assert sorted(drawn) == sorted(ERRORS - {"RolloutLabError"})


def test_only_one_statement_changes_an_experiment_s_status() -> None:
    writers = {
        path.relative_to(ROOT).as_posix() for path in SOURCES if re.search(r"update\(experiments\)", path.read_text())
    }
    assert writers <= {"app/store/transitions.py", "app/store/queue.py", "app/store/lease.py"}
    for others in ("queue", "lease"):
        assert not re.search(r"values\([^)]*status=", (ROOT / f"app/store/{others}.py").read_text())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    named = set(re.findall(r"`((?:app|workers|tests|docs|docker|examples|benchmarks|scripts|locks)/[\w./-]*)`", text))
    linked = {link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not link.startswith("http")}
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in linked if not (document.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_module_a_document_names_exists(document: Path) -> None:
    from app.cli.entry import app

    commands = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    text = document.read_text()
    assert set(re.findall(r"rollout-lab ([a-z]+)\b", text)) <= commands
    for module in re.findall(r"python -m ([\w.]+)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
