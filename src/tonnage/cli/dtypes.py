"""``tonnage dtypes``: number formats, and what values become in them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json


def dtypes(
    *,
    cast: Annotated[
        list[str] | None,
        Parameter(
            metavar="VALUE...",
            help="What these values become in each format, rounded to nearest, ties to even.",
            consume_multiple=True,
            negative="",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """List number formats: bits, range and resolution; or what values become in each."""
    from tonnage.dtype import DTYPES
    from tonnage.report import casting as report_casts
    from tonnage.report import dtypes as report_formats

    if cast is not None:
        from tonnage.casting import read_values

        casts = report_casts.cast_all(read_values(cast, field="cast"))
        if as_json:
            print_json(report_casts.casts_json(casts))
        else:
            report_casts.print_casts(casts)
    elif as_json:
        print_json({"dtypes": [report_formats.dtype_json(entry) for entry in DTYPES]})
    else:
        report_formats.print_dtypes(DTYPES)
    return 0
