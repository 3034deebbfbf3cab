"""One self-contained page: figures that plotly draws without a network, and tables.

Whatever a person named (a model, a file, a habit) is escaped, in the page and in its figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tonnage.errors import InputError, MissingPartError

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.fits { color: #00704f; } .not { color: #b02a00; }
table { border-collapse: collapse; margin: 0.6rem 0; }
th, td { padding: 0.2rem 0.9rem 0.2rem 0; text-align: left; border-bottom: 1px solid #ddd;
  font-variant-numeric: tabular-nums; }
td.n, th.n { text-align: right; }
.note { color: #555; }
"""


def graph_objects() -> Any:
    """Plotly's figures.

    Raises:
        MissingPartError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingPartError(part="plotly", extra="plot", purpose="an HTML page") from None
    return go


class Page:
    """A page that is being written, from the top down."""

    def __init__(self, title: str) -> None:
        self._title = escape(title)
        self._parts: list[str] = [f"<h1>{self._title}</h1>"]
        self._drawn = False

    def heading(self, text: str) -> None:
        """A heading within the page."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """A paragraph; ``kind`` is a class of the style sheet."""
        self._parts.append(f'<p class="{escape(kind)}">{escape(text)}</p>')

    def listing(self, lines: Iterable[str]) -> None:
        """A list."""
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        self._parts.append(f"<ul>{items}</ul>")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> None:
        """A table whose first ``words`` columns are words and whose others are numbers."""

        def line(cells: Sequence[str], tag: str) -> str:
            kinds = ("" if place < words else ' class="n"' for place in range(len(cells)))
            return "".join(
                f"<{tag}{kind}>{escape(cell)}</{tag}>"
                for cell, kind in zip(cells, kinds, strict=True)
            )

        body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
        self._parts.append(
            f"<table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
        )

    def figure(self, figure: Any, height: int) -> None:
        """A figure of plotly's, whose script the first one brings along."""
        figure.update_layout(
            template="plotly_white", height=height, margin={"l": 60, "r": 20, "t": 30, "b": 50}
        )
        self._parts.append(
            figure.to_html(
                full_html=False,
                include_plotlyjs=not self._drawn,
                config={"displaylogo": False, "responsive": True},
                default_height=f"{height}px",
            )
        )
        self._drawn = True

    def __str__(self) -> str:
        """The whole page."""
        head = f'<meta charset="utf-8"><title>{self._title}</title><style>{STYLE}</style>'
        body = "\n".join(self._parts)
        return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>'

    def write(self, path: str | Path, field: str = "html") -> int:
        """Write the page to a file.

        Returns:
            Its size in bytes.

        Raises:
            InputError: the file cannot be written.
        """
        data = str(self).encode()
        try:
            Path(path).write_bytes(data)
        except OSError as error:
            raise InputError(
                field=field,
                value=str(path),
                problem=f"cannot be written: {error.strerror or error}",
            ) from None
        return len(data)
