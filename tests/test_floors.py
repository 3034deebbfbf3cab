"""A module imports from its own room and the rooms above, and `import tonnage` is light.

The order of the rooms is read from docs/design.md, so that page and code cannot drift.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tonnage"
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

HEAVY = (
    *("torch", "transformers", "plotly", "sympy", "starlette", "uvicorn", "flask"),
    *("numpy", "pydantic"),
)

Graph = dict[str, set[str]]


def rooms(design: str) -> dict[str, str]:
    """Each room and what the page says of it, highest first."""
    block = re.search(r"^src/tonnage/\n(.*?)^```", design, re.MULTILINE | re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    found = [re.fullmatch(r"  (\w+)(?:\.py|/) +(\S.*)", line) for line in lines]
    assert all(found), "a line of the list of rooms cannot be read"
    return {line[1]: line[2] for line in found if line is not None}


def modules(package: Path) -> dict[str, Path]:
    """Every module by its dotted name; a package's is that of its ``__init__``."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The first part below the package; the package itself is the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(module: str, path: Path, known: set[str]) -> set[str]:
    """Modules of the package that a module imports, at any depth and under any condition.

    ``from a.b import c`` is an import of ``a.b.c`` where that is a module. The ``__init__``
    of the packages on the way runs too, but gives the importer nothing.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = _absolute(module, path, name, level)
                found.update(f"{base}.{alias.name}" for alias in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(function).endswith(("import_module", "__import__")):
                    found.add(name)
    return {other for name in found if (other := _longest_known(name, known))} - {module}


def _absolute(module: str, path: Path, name: str | None, level: int) -> str:
    if level == 0:
        return name or ""
    # A package is its own first level.
    up = level - (path.name == "__init__.py")
    parts = module.split(".")
    return ".".join([*parts[: len(parts) - up], *([name] if name else [])])


def _longest_known(name: str, known: set[str]) -> str | None:
    parts = name.split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in known), None)


def graph(package: Path) -> Graph:
    """Every module and what it imports."""
    found = modules(package)
    return {module: imports(module, path, set(found)) for module, path in found.items()}


def faults(package: Path, order: list[str]) -> list[str]:
    """What breaks the order of the rooms, in sentences; one cycle, where there are any."""
    links = graph(package)
    floor = {room: height for height, room in enumerate(order)}
    found = [f"{module} is in no room" for module in links if room_of(module) not in floor]
    found.extend(
        f"{module} imports {other}, from a room below it"
        for module, others in links.items()
        for other in others
        if floor.get(room_of(other), -1) > floor.get(room_of(module), len(order))
    )
    try:
        TopologicalSorter(links).prepare()
    except CycleError as error:
        found.append("a cycle: " + " -> ".join(reversed(error.args[1])))
    return sorted(found)


def test_no_module_imports_from_a_room_below() -> None:
    assert faults(PACKAGE, list(rooms(DESIGN))) == []


def test_the_page_says_which_rooms_are_built() -> None:
    built = {room_of(module) for module in modules(PACKAGE)}
    page = rooms(DESIGN)
    assert {room for room, job in page.items() if not job.startswith("later: ")} == built


def test_the_first_rooms_are_those_that_everything_needs() -> None:
    assert list(rooms(DESIGN))[:4] == ["errors", "version", "files", "algebra"]


def tree(folder: Path, **files: str) -> Path:
    """A package ``toy`` with rooms ``high`` (a package) and ``low``; ``__`` stands for a slash."""
    package = folder / "toy"
    blank = {"__init__": "", "high____init__": "", "high__inner": "", "low": ""}
    for name, text in {**blank, **files}.items():
        stem = name if name == "__init__" else name.replace("__", "/", 1)
        path = package / f"{stem}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


ORDER = ["high", "low", "__init__"]


@pytest.mark.parametrize(
    "text",
    [
        "import toy.low",
        "from toy import low",
        "from toy.low import name",
        "from .. import low",
        "from ..low import name",
        "def later():\n    from toy.low import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.low import Name",
        "import importlib\nimportlib.import_module('toy.low')",
    ],
)
def test_an_import_from_a_lower_room_is_found(tmp_path: Path, text: str) -> None:
    package = tree(tmp_path, high__inner=text)
    assert faults(package, ORDER) == ["toy.high.inner imports toy.low, from a room below it"]


def test_the_front_door_is_below_every_room(tmp_path: Path) -> None:
    package = tree(tmp_path, high__inner="from toy import name")
    assert faults(package, ORDER) == ["toy.high.inner imports toy, from a room below it"]


@pytest.mark.parametrize("text", ["from .inner import name", "from . import inner"])
def test_a_package_may_import_what_it_holds(tmp_path: Path, text: str) -> None:
    package = tree(tmp_path, high____init__=text, low="from toy.high import inner, name")
    assert faults(package, ORDER) == []
    assert graph(package)["toy.high"] == {"toy.high.inner"}
    assert graph(package)["toy.low"] == {"toy.high", "toy.high.inner"}


def test_a_cycle_inside_a_room_is_found(tmp_path: Path) -> None:
    package = tree(tmp_path, high__inner="from .outer import a", high__outer="from .inner import b")
    (found,) = faults(package, ORDER)
    assert found.startswith("a cycle: toy.high.")


def test_a_module_without_a_room_is_found(tmp_path: Path) -> None:
    package = tree(tmp_path, cellar="")
    assert faults(package, ORDER) == ["toy.cellar is in no room"]


def test_a_list_of_rooms_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(AssertionError, match="cannot be read"):
        rooms("src/tonnage/\n  errors.py  what can go wrong\n  nonsense\n```\n")


def loaded_by(statement: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has loaded after a statement."""
    script = f"import sys; {statement}; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.splitlines()).intersection(HEAVY)


@pytest.mark.parametrize("statement", ["import tonnage", "import tonnage.ledger, tonnage.napkin"])
def test_an_import_is_light(statement: str) -> None:
    assert loaded_by(statement) == set()


def test_a_heavy_import_would_be_seen() -> None:
    assert loaded_by("import numpy") == {"numpy"}
