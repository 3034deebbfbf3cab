"""A progress bar on a terminal's error stream, and nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def progress(total: int | None, unit: str, *, stream: TextIO) -> Iterator[Callable[[], None]]:
    """Give a function that counts one done; the bar goes when the work is.

    Args:
        total: how many there are to do; None: nobody knows.
        unit: what they are called.
        stream: where the bar is drawn, if that is a terminal.
    """
    if not stream.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(unit, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def progress_share(unit: str, *, stream: TextIO) -> Iterator[Callable[[float], None]]:
    """Give a function that is told the share that is done; the bar goes when the work is.

    Args:
        unit: what is being gone through.
        stream: where the bar is drawn, if that is a terminal.
    """
    if not stream.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn(unit), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(unit, total=1.0)
        yield lambda share: bar.update(task, completed=share)
