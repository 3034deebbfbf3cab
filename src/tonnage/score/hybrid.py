"""Hybrid patterns of layers, as Megatron's launch lines write them: ``M*E-/*E``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tonnage.arch import MLP, Attention, LatentAttention, Layer, Mamba2, MoE, Norm
from tonnage.errors import InputError
from tonnage.score.row import Row

CONVOLUTION, CHUNK = 4, 128
"""Taps of Mamba-2's convolution and positions of a block (Megatron-Core ``MambaMixer``)."""


def pattern(row: Row) -> str:
    """The letters of the decoder's layers: M a Mamba-2, * attention, - an MLP, E experts.

    What follows the first slash is the pattern of the further-token predictors.
    """
    found = re.search(r"hybrid-(?:layer|override)-pattern=([me*/|-]+)", row.text("extra"))
    return found.group(1).split("/")[0].replace("|", "").upper() if found else ""


def hybrid_layers(
    row: Row,
    shape: Mapping[str, Any],
    norm: Norm,
    attention: Attention | LatentAttention,
    feed_forward: tuple[MLP, MoE | None],
) -> tuple[Layer, ...]:
    """One layer a letter, each with one part.

    Args:
        row: the measured run.
        shape: facts that its words state: Mamba's heads and widths.
        norm: of every layer's input.
        attention: what a star stands for.
        feed_forward: what a hyphen and an E stand for.

    Raises:
        InputError: an E has no experts to stand for.
    """
    plain, routed = feed_forward
    letters = pattern(row)
    if "E" in letters and routed is None:
        raise InputError(
            field=f"{row.name}.experts",
            value="",
            problem="are missing, and the pattern of layers has an E",
            accepted="the number of experts",
        )

    def mixing(mixer: Any) -> Layer:
        return Layer(mixer=mixer, mlp=None, mixer_norm=norm, mlp_norm=None)

    def feeding(part: Any) -> Layer:
        return Layer(mixer=None, mlp=part, mixer_norm=None, mlp_norm=norm)

    kinds = {"*": mixing(attention), "-": feeding(plain), "E": feeding(routed or plain)}
    if "M" in letters:
        kinds["M"] = mixing(_mamba(row, shape))
    return tuple(kinds[letter] for letter in letters)


def _mamba(row: Row, shape: Mapping[str, Any]) -> Mamba2:
    width = int(shape.get("mamba_head_dim", 64))
    return Mamba2(
        heads=int(shape.get("mamba_heads", 2 * row.count("hidden") // width)),
        head_dim=width,
        groups=int(shape.get("mamba_groups", 8)),
        state=int(shape.get("mamba_state", 128)),
        conv_kernel=CONVOLUTION,
        chunk=CHUNK,
    )
