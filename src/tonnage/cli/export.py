"""``--export TOOL``: a plan as the file or command that another tool is launched with."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from tonnage.cli.output import print_json
from tonnage.cli.run import Run


def show_export(run: Run, kind: str, given: Mapping[str, Any], *, as_json: bool) -> int:
    """Print a plan for a tool on stdout, and what the tool lacks on stderr.

    Args:
        run: what the command line asks for.
        kind: the tool.
        given: fields of the plan that flags set.
        as_json: print an object with the text and the warnings.

    Raises:
        InputError: there is no such tool, or it cannot be told the plan.
    """
    from tonnage.formats.export import export, for_tool

    plan, left = for_tool(kind, run.plan, given)
    written = export(kind, run.architecture, plan, run.cluster, steps=run.limits.steps)
    warnings = list(written.warnings)
    if left:
        warnings.insert(0, f"{', '.join(left)}: left to {plan.runtime}, which is another stack")
    if as_json:
        told = {"kind": kind, **dataclasses.asdict(written), "warnings": warnings}
        print_json({"export": told})
        return 0
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    sys.stdout.write(written.text)
    return 0
