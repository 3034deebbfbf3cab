"""Somebody's own file: loaded, and blamed for what it raises and for how long it takes."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tonnage.errors import InputError, TonnageError

TARGET = re.compile(r"(?P<path>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""How a person names a function of a file."""

_ACCEPTED = "path/to/file.py:function"


@contextmanager
def blamed_on(target: str) -> Iterator[None]:
    """What the user's own code raises is told as theirs, and does not end the process."""
    try:
        yield
    except (TonnageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        text = f"raised {type(error).__name__}: {error}"
        raise InputError(
            field="MODEL",
            value=target,
            problem=text,
            accepted="a function that runs",
            hint="--debug shows where",
        ) from error


@contextmanager
def within(target: str, seconds: float | None) -> Iterator[None]:
    """Stop code that takes too long, where the system has an alarm for it.

    Raises:
        InputError: it does; or a length of time is no positive number.
    """
    if seconds is None:
        yield
        return
    if not 0 < seconds < float("inf"):
        raise InputError(
            field="time_limit", value=seconds, problem="is no length of time", accepted="over 0"
        )
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> NoReturn:
        raise InputError(
            field="MODEL",
            value=target,
            problem=f"has not finished after {seconds:g} s",
            accepted="a step that ends",
            hint="--time-limit gives it longer",
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load(target: str) -> Callable[..., Any]:
    """The function that a person names, its file run.

    Raises:
        InputError: there is no such file or function, or the file raises.
    """
    match = TARGET.fullmatch(target)
    if match is None or not os.path.isfile(match["path"]):
        raise InputError(
            field="MODEL", value=target, problem="is no function of a file", accepted=_ACCEPTED
        )
    spec = importlib.util.spec_from_file_location("tonnage_dry_run_of", match["path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its neighbours can be imported, as when Python runs the file.
    sys.path.insert(0, os.path.dirname(os.path.abspath(match["path"])))
    try:
        with blamed_on(target):
            spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    function = getattr(module, match["function"], None)
    if not callable(function):
        raise InputError(
            field="MODEL",
            value=target,
            problem=f"has no function {match['function']}",
            accepted=_ACCEPTED,
        )
    return function  # type: ignore[no-any-return]
