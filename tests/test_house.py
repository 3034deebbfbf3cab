"""What holds for the project as a whole: its files, its wheel, its version and its pages."""

from __future__ import annotations

import doctest
import re
import subprocess
import zipfile
from importlib import metadata, resources
from pathlib import Path

import pytest

import tonnage

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PACKAGE_DATA = ("py.typed", "arch/catalog.json")

# An absolute path on somebody's machine; not a part of a URL or of a relative path.
MACHINE_PATH = re.compile(r"(?<![\w./:~-])/(?:work|tmp|root|home|Users|mnt|private)/")


def tracked() -> list[Path]:
    """The files that git tracks; the test is skipped outside a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def machine_paths(text: str) -> list[str]:
    """The lines that name a path of one machine."""
    return [line.strip() for line in text.splitlines() if MACHINE_PATH.search(line)]


def test_no_file_names_a_path_of_one_machine() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in tracked() if path.exists()}
    found = {str(path.relative_to(ROOT)): machine_paths(text) for path, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("folder", ["tmp", "work", "root", "home"])
def test_a_path_of_one_machine_is_seen(folder: str) -> None:
    assert machine_paths(f"cd '/{folder}/here'") == [f"cd '/{folder}/here'"]
    assert machine_paths(f"https://example.org/{folder}/here, docs/{folder}/here") == []


def test_the_version_is_that_of_the_package() -> None:
    assert tonnage.__version__ == metadata.version("tonnage")


@pytest.mark.parametrize("name", PACKAGE_DATA)
def test_package_data_is_installed(name: str) -> None:
    assert resources.files("tonnage").joinpath(name).is_file()


def test_the_wheel_holds_the_package_and_its_data(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="the build back end")
    (built,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(built).namelist())
    assert {
        f"tonnage/{name}" for name in (*PACKAGE_DATA, "__init__.py", "cli/__init__.py")
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_the_code_says(page: Path) -> None:
    """Fences are blanked and not cut out, so that a failure names the page's own line."""
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "derivations").glob("*.md")), ids=lambda page: page.stem
)
def test_a_derivation_has_a_takeaway_and_a_number(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "\n## Takeaway\n" in text
    assert ">>> " in text
