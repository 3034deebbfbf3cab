"""``tonnage score``: predicted beside measured."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json


def score(
    *files: Annotated[Path, Parameter(help="CSV files of measured runs, one row a run.")],
    rows: Annotated[
        Path | None,
        Parameter(help="Write predicted beside measured, row by row, to this CSV file."),
    ] = None,
    html: Annotated[
        Path | None,
        Parameter(help="Write a scatter and the errors to this page, which needs no network."),
    ] = None,
    measured_network: Annotated[
        bool,
        Parameter(
            negative="",
            help="Take what a run measured of its own network (column other_measured) as an input.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Hold the predictor to measured runs: errors by family, fits, and choice of plan."""
    from tonnage.cli.written import check_page_name, check_place, write_page
    from tonnage.errors import InputError
    from tonnage.report.progress import progress
    from tonnage.report.score import print_scoreboard, write_rows
    from tonnage.score import read_rows, scoreboard
    from tonnage.score import score as score_rows

    if not files:
        raise InputError(
            field="FILE", value="", problem="is missing", accepted="one or more CSV files"
        )
    if rows is not None and any(rows.resolve() == file.resolve() for file in files):
        raise InputError(
            field="rows",
            value=str(rows),
            problem="is one of the measured files",
            accepted="another file",
        )
    if rows is not None:
        check_place("rows", rows)
    if html is not None:
        check_page_name(html)
    measured = [row for file in files for row in read_rows(file)]
    if not measured:
        names = ", ".join(map(str, files))
        raise InputError(field="FILE", value=names, problem="holds no row", accepted="a row a run")
    with progress(len(measured), "rows", stream=sys.stderr) as seen:
        scored = score_rows(measured, seen, measured_network=measured_network)
    board = scoreboard(scored)
    if rows is not None:
        write_rows(rows, scored)
    if html is not None:
        from tonnage.report.score_page import score_page

        write_page(score_page(board, scored), html)
    if as_json:
        print_json({**dataclasses.asdict(board.pooled), **_others(board)})
    else:
        print_scoreboard(board)
    return 0


def _others(board: object) -> dict[str, object]:
    from tonnage.score import Scoreboard

    assert isinstance(board, Scoreboard)
    return {
        "families": {name: dataclasses.asdict(part) for name, part in board.families.items()},
        "refused": [dataclasses.asdict(refusal) for refusal in board.refused],
        "unknown_words": board.unknown_words,
    }
