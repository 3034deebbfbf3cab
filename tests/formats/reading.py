"""What the tests of launch files share: texts written to files, and files of public projects."""

from __future__ import annotations

from pathlib import Path

from tonnage.formats import Launch, read_launch

CASES = Path(__file__).parents[3] / "shared" / "cases" / "launch"
"""Launch files of public projects, where a checkout has them beside it."""


def launch(folder: Path, *texts: str, kind: str | None = None, gpus: int | None = 8) -> Launch:
    """The launch of texts, each written to a file of its own."""
    paths = []
    for index, text in enumerate(texts):
        suffix = "json" if text.lstrip().startswith(("{", "[")) else "yaml"
        path = folder / f"run{index}.{suffix}"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return read_launch(*paths, kind=kind, gpus=gpus)


def habits(read: Launch) -> dict[str, str]:
    """The habits of a launch by name."""
    found = read.plan.get("habits", ())
    assert isinstance(found, tuple)
    return dict(found)
