"""Bars made of characters."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, *, ascii_only: bool) -> str:
    """A bar of a share of ``width`` characters, to an eighth of a character.

    Args:
        share: from 0 to 1; more is drawn as 1.
        width: characters of a whole bar.
        ascii_only: the output cannot show block characters; ``#`` to the nearest character.
    """
    filled = max(0.0, min(1.0, share)) * width
    if ascii_only:
        return "#" * max(round(filled), filled > 0)
    eighths = max(round(filled * 8), filled > 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def gauge(share: float, width: int, *, ascii_only: bool) -> tuple[str, str]:
    """A bar of whole characters and the track that it leaves, together ``width`` long."""
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    filled = min(width, max(round(share * width), share > 0))
    return full * filled, empty * (width - filled)
