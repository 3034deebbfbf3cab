"""The look that every report shares: a console, headings, aligned rows, bullets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from tonnage.report.bars import bar

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDEST = 108
"""Lines longer than this are hard to read, however wide the terminal is."""

NARROWEST = 20
"""No line is shorter, whatever a terminal says: some have 0 columns, where nothing would show."""

INDENT = 2

Justify: TypeAlias = Literal["left", "right"]
Cell: TypeAlias = str | Text


def console(*, width: int | None = None) -> Console:
    """A console on stdout that prints text as it is: no markup, no emoji, no guessed colours.

    Args:
        width: columns; None: those of the terminal, from `NARROWEST` to `WIDEST`.
    """
    import sys

    from rich.console import Console

    made = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    if width is None:
        made.width = min(max(made.width, NARROWEST), WIDEST)
    return made


def ascii_only(screen: Console) -> bool:
    """Whether the output cannot show block characters."""
    return screen.options.ascii_only


def heading(screen: Console, title: str, detail: str = "") -> None:
    """A blank line and a title."""
    screen.print()
    text = Text.assemble((title, "bold"), (f"  {detail}" if detail else "", "dim"))
    print_block(screen, text, indent=0)


def grid(*columns: Column, gap: int = 2) -> Table:
    """A table without lines, with ``gap`` spaces between its columns."""
    return Table(*columns, box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=False)


def share_text(share: float) -> str:
    """A share in per cent; what is too small for one decimal is not shown as nothing."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def print_block(
    screen: Console, block: RenderableType, indent: int = INDENT, *, least: int = 0
) -> None:
    """Print a table or a paragraph, indented, without the blanks that fill its lines.

    Args:
        screen: where.
        block: what.
        indent: blanks before each line.
        least: columns that it takes at least: lines are longer than a narrower screen.
    """
    from rich.padding import Padding

    given = screen.width
    screen.width = max(given, least)
    with screen.capture() as captured:
        screen.print(Padding(block, (0, 0, 0, indent), expand=False))
    screen.width = given
    for line in captured.get().splitlines():
        screen.file.write(f"{line.rstrip()}\n")


def print_words(screen: Console, words: Iterable[Text]) -> None:
    """Pieces of a legend, indented, as many on a line as it has room for."""
    line = Text()
    for word in words:
        if line and line.cell_len + len(word.plain.rstrip()) > screen.width - INDENT:
            print_block(screen, line)
            line = Text()
        line.append_text(word)
    print_block(screen, line)


def facts(screen: Console, rows: Iterable[tuple[Cell, Cell, Cell]]) -> None:
    """Rows of a name, a value and a remark."""
    table = grid(
        Column(no_wrap=True), Column(no_wrap=True, justify="right"), Column(style="dim", ratio=1)
    )
    for row in rows:
        table.add_row(*row)
    print_block(screen, table)


def listing(
    screen: Console, columns: Sequence[tuple[str, Justify]], rows: Iterable[Sequence[Cell]]
) -> None:
    """A table with a header; where it is too wide, words wrap and figures stay whole."""
    kept = [tuple(row) for row in rows]
    assert all(len(row) == len(columns) for row in kept), "a row and its header differ in length"

    def made(*, wide: bool) -> Table:
        table = grid(
            *(
                Column(n, justify=s, no_wrap=wide or s == "right", overflow="fold")
                for n, s in columns
            ),
            gap=2 if wide else 1,
        )
        table.show_header = True
        table.header_style = "dim"
        for row in kept:
            table.add_row(*row)
        return table

    table = made(wide=True)
    natural = screen.measure(table, options=screen.options.update(max_width=10 * WIDEST)).maximum
    if natural <= screen.width - INDENT:
        print_block(screen, table)
    else:
        print_block(screen, made(wide=False), least=INDENT + _narrowest(columns, kept))


def _narrowest(columns: Sequence[tuple[str, Justify]], rows: Sequence[Sequence[Cell]]) -> int:
    """Columns of the screen that a table takes whose figures are whole and whose words wrap."""
    widths = []
    for place, (name, side) in enumerate(columns):
        texts = [name, *(str(row[place]) for row in rows)]
        pieces = texts if side == "right" else [word for text in texts for word in text.split()]
        widths.append(max((cell_len(piece) for piece in pieces), default=0))
    return sum(widths) + len(widths) - 1


def bar_rows(
    screen: Console, rows: Sequence[tuple[str, float, str]], *, whole: float, style: str
) -> None:
    """Rows of a name, a bar, a value and its share of ``whole``, the largest first.

    Args:
        screen: where to print.
        rows: name, size and the size as text; those of size zero are left out.
        whole: what the shares are of. Bars are relative to the largest row.
        style: colour of the bars.
    """
    shown = sorted((row for row in rows if row[1] > 0), key=lambda row: -row[1])
    longest = max((row[1] for row in shown), default=1.0)
    names = max((len(name) for name, _, _ in shown), default=0)
    values = max((len(text) for _, _, text in shown), default=0)
    width = max(8, screen.width - INDENT - names - values - len("100.0%") - 3 * INDENT)
    table = grid(
        Column(no_wrap=True),
        Column(style=style, width=width, no_wrap=True),
        Column(no_wrap=True, justify="right"),
        Column(no_wrap=True, justify="right", style="dim"),
    )
    for name, size, text in shown:
        drawn = bar(size / longest, width, ascii_only=ascii_only(screen))
        table.add_row(name, drawn, text, share_text(size / whole))
    print_block(screen, table)


def bullets(screen: Console, lines: Iterable[str]) -> None:
    """A list, each entry wrapped under its own first word."""
    table = grid(Column(style="dim", width=1), Column(ratio=1), gap=1)
    for line in lines:
        table.add_row("-" if ascii_only(screen) else "•", line)
    print_block(screen, table)
