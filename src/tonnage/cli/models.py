"""``tonnage models``: the catalog of models."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json


def models(
    pattern: Annotated[
        str, Parameter(help="Part of a name or family, in any case; * and ? stand for anything.")
    ] = "",
    /,
    *,
    as_json: JsonFlag = False,
) -> int:
    """List the catalog of models: sizes, heads, context, and where the facts come from."""
    from tonnage.arch import catalog_names, load
    from tonnage.cli.matching import matching
    from tonnage.report.catalog import model_row, print_models

    rows = [model_row(load(name)) for name in catalog_names()]
    found = matching(rows, pattern, lambda row: (row.name, row.family))
    if as_json:
        print_json({"models": [dataclasses.asdict(row) for row in found]})
    else:
        print_models(found)
    return 0
