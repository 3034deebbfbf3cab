"""Runs the command line inside the test's own process."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tonnage.cli import main


@dataclass(frozen=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out, parse_constant=_not_json)


def _not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def run(*words: str, stdin: str = "") -> Result:
    """What a command prints, and its exit code; off the network."""
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", given),
        mock.patch.dict("os.environ", {"HF_HUB_OFFLINE": "1", "COLUMNS": "80"}),
    ):
        code = main(words)
    return Result(code=code, out=out.getvalue(), err=err.getvalue())
