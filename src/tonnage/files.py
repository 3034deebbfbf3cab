"""Files that nobody has checked: opened without blocking, read up to a bound, parsed once.

A pipe that nobody writes to would block a reader for ever, and a device never ends; a JSON
object that names a key twice says two things. Each is an error here, for every reader.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

STANDARD_INPUT = "-"


class UnreadableError(ValueError):
    """Why a file cannot be used, in one clause."""


def read_bounded(path: str, limit: int) -> bytes:
    """The bytes of a regular file, or of standard input (``-``).

    Args:
        path: the file.
        limit: bytes that are read at most; one more is returned where there are more.

    Raises:
        UnreadableError: it is not there, not readable, or no regular file.
    """
    with opened(path) as file:
        return file.read(limit + 1)


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A regular file, or standard input (``-``), to be read piece by piece.

    Raises:
        UnreadableError: it is not there, not readable, or no regular file.
    """
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        name = Path(path).expanduser()
        if not _is_readable(name):
            raise UnreadableError("is not a regular file")
        file = name.open("rb")
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from None
    except RuntimeError:  # no home folder
        raise UnreadableError("cannot be read: no such name") from None
    except ValueError as error:  # a NUL in the name
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError("cannot be read: no such name") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror or error}") from None


def _is_readable(path: Path) -> bool:
    """A regular file, or this process' own standard input by another name."""
    if str(path).startswith(("/dev/stdin", "/dev/fd/")):
        return True
    mode = os.stat(path).st_mode
    # A folder is let through: opening it says so.
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def parse_json(text: str) -> Any:
    """JSON in which no object names a key twice.

    Raises:
        ValueError: it is not that (of which `json.JSONDecodeError` is a kind).
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableError(f"names the key {twice[:40]!r} twice")
    return made
