from __future__ import annotations

import io

from rich.console import Console

from tonnage.estimation.explain import Explanation, Line
from tonnage.estimation.symbols import Symbol
from tonnage.report.explain import print_explanation

TOTAL = Line(name="parameters", formula="2·V·h", worked="2·[50257]·768", value="73.62 MiB")
EXPLANATION = Explanation(
    row="parameters",
    summary="bytes on one rank",
    symbols=(Symbol(name="V", meaning="vocabulary", value=50257),),
    lines=(Line(name="embedding.weight", formula="8", worked="8", value="8 B"),),
    total=TOTAL,
    notes=("a note",),
)


def test_symbols_then_numbers() -> None:
    file = io.StringIO()
    print_explanation(EXPLANATION, Console(file=file, width=80, markup=False, highlight=False))
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert lines[:2] == ["parameters = 73.62 MiB", "bytes on one rank"]
    assert lines.index("2·V·h") + 1 == lines.index("= 2·[50257]·768")
    assert "= 8" not in lines
    assert any(line.split() == ["V", "50257", "vocabulary"] for line in lines)
    assert lines[-1] == "• a note"
