"""Colours and letters of what pictures of a step are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.report.palette import colour

if TYPE_CHECKING:
    from rich.console import Console

CATEGORY_LETTERS = {
    "parameters": "P",
    "master_weights": "M",
    "gradients": "G",
    "optimizer_states": "O",
    "activations": "A",
    "logits_and_loss": "L",
    "communication_buffers": "C",
    "temporaries": "T",
}
"""From the bottom of a stacked picture to its top: what stays comes first."""

WAYS = {"forward": "F", "backward": "B", "input": "B", "weight": "W"}
"""A pass's letter; the input's gradient is the part of a backward pass that others wait for."""

EXPOSED, IDLE = "c", "."
"""Communication in the open, and a stage that has nothing to do."""

MEANS = {
    "F": "forward",
    "B": "backward",
    "W": "weights' gradients",
    EXPOSED: "communication",
}
"""What the letters of a schedule mean."""

PASS_COLOURS = {"F": colour(0), "B": colour(2), "W": colour(5), EXPOSED: colour(1)}

CATEGORY_COLOURS = {name: colour(index) for index, name in enumerate(CATEGORY_LETTERS)}


def plain(screen: Console) -> bool:
    """Whether letters must stand for colours."""
    return screen.color_system is None or screen.no_color
