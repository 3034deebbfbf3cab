"""An image encoder in front of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.arch.layer import Layer
from tonnage.arch.norm import LAYERNORM, Norm


@dataclass(frozen=True, kw_only=True)
class Patches:
    """What an image model reads in place of tokens: patches, behind a learnt class token.

    Attributes:
        size: side of a square patch, in pixels.
        channels: colour channels of a patch.
    """

    size: int
    channels: int


@dataclass(frozen=True, kw_only=True)
class VisionTower:
    """An image encoder in front of the decoder, with the projector that joins them.

    Attributes:
        hidden: its width.
        layers: its layers.
        patch_size: side of a square patch, in pixels.
        frames: video frames of a patch.
        channels: colour channels of a patch.
        patch_bias: a bias on the patch embedding.
        positions: learnt position embeddings; 0: none.
        class_token: a learnt token beside the patches.
        first_norm: the norm before the first layer, or None.
        final_norm: the norm after the last layer, or None.
        projector: shapes of the weights between the tower and the decoder.
    """

    hidden: int
    layers: tuple[Layer, ...]
    patch_size: int
    positions: int
    frames: int = 1
    channels: int = 3
    patch_bias: bool = True
    class_token: bool = False
    first_norm: Norm | None = None
    final_norm: Norm | None = LAYERNORM
    projector: tuple[tuple[int, ...], ...] = ()
