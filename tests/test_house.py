"""What the house promises, and a reader relies on."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from app import errors

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("app/**/*.py"), *ROOT.glob("workers/**/*.py"), *ROOT.glob("migrations/**/*.py")])
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
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
    named = set(
        re.findall(r"`((?:app|workers|tests|migrations|docs|docker|examples|benchmarks|scripts|locks)/[\w./-]*)`", text)
    )
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_variable_a_document_names_is_a_setting(document: Path) -> None:
    from app.settings import Settings

    settings = {Settings.variable_of((name,)) for name in Settings.model_fields}
    assert set(re.findall(r"\bROLLOUT_LAB_\w+", document.read_text())) <= settings


def test_the_readme_gives_settings_their_defaults() -> None:
    from app.settings import Settings

    rows = re.findall(r"^\| (`ROLLOUT_LAB.*?) \| (`.*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    given = {
        name: default
        for names, defaults in rows
        for name, default in zip(re.findall(r"`(\w+)`", names), re.findall(r"`([^`]+)`", defaults), strict=False)
    }
    known = {Settings.variable_of((name,)): field.default for name, field in Settings.model_fields.items()}
    plain = {name: known[name] for name in given if known[name]}
    assert {"ROLLOUT_LAB_HOST", "ROLLOUT_LAB_PORT", "ROLLOUT_LAB_ANONYMOUS"} <= plain.keys()
    assert {name: type(default)(given[name]) for name, default in plain.items()} == plain


@pytest.mark.parametrize(
    ("document", "chapter", "beginnings"),
    [
        ("README.md", "How it is built", ["app/api/experiments.py", "workers/__main__.py"]),
        (
            "CONTRIBUTING.md",
            "The path of one experiment",
            ["app/api/experiments.py", "workers/__main__.py", "app/api/results.py", "app/pages/subject.py"],
        ),
    ],
)
def test_the_path_of_one_experiment_is_in_the_order_of_imports(
    document: str, chapter: str, beginnings: list[str]
) -> None:
    """Each module on it is imported by one that a reader has seen, and none is named twice."""
    text = (ROOT / document).read_text().partition(f"## {chapter}\n")[2].partition("\n## ")[0]
    path = re.findall(r"`((?:app|workers)/[\w/]+\.py)`", text)
    seen: set[str] = set()
    begun = []
    for module in path:
        if module not in seen:
            begun.append(module)
        seen |= imported_by(ROOT / module)
    assert begun == beginnings
    assert len(set(path)) == len(path)


def imported_by(path: Path) -> set[str]:
    """Files of the modules that one imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    places = [name.replace(".", "/") for name in names]
    return {file for place in places for file in (f"{place}.py", f"{place}/__init__.py") if (ROOT / file).exists()}


# One resource on several floors: stored, served, drawn, typed at a prompt.
SHARED_MODULES = {
    "continuation",
    "experiments",
    "export",
    "noise",
    "permits",
    "results",
    "simulated",
    "tokens",
    "trials",
    "workers",
}
SHARED_CLASSES = {"Worker"}


def test_modules_and_classes_are_called_by_names_of_their_own() -> None:
    shipped = [path for path in SOURCES if not path.is_relative_to(ROOT / "migrations")]
    modules = Counter(path.stem for path in shipped if not path.stem.startswith("__"))
    classes = Counter(name for path in shipped for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.M))
    assert {name for name, count in modules.items() if count > 1} == SHARED_MODULES
    assert {name for name, count in classes.items() if count > 1} == SHARED_CLASSES


def test_every_name_in_the_list_of_words_is_defined_where_it_says() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| [^|]+ \| `([^`]+)` \|$", (ROOT / "docs/words.md").read_text(), re.M)
    assert len(rows) > 10
    for names, place in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(class {name}\b|{name}\b.* = )", (ROOT / place).read_text(), re.M), (name, place)
