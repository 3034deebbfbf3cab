"""One layer: what mixes positions, what mixes channels, and the norms around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tonnage.arch.feed_forward import FeedForward
from tonnage.arch.mixer import Attention, LatentAttention
from tonnage.arch.norm import Norm
from tonnage.arch.recurrent import Recurrent

Mixer: TypeAlias = Attention | LatentAttention | Recurrent


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer: what mixes positions, what mixes channels, and the norms around them.

    Attributes:
        mixer: the attention or other mixer; None: the layer mixes channels alone (Nemotron-H).
        mlp: the feed-forward part; None: the layer mixes positions alone (Mamba).
        mixer_norm: norm of the mixer's input, or None.
        mixer_output_norm: norm of the mixer's output before the residual sum (Gemma 2).
        mlp_norm: norm of the feed-forward input; None where it shares the mixer's.
        mlp_output_norm: norm of the feed-forward output before the residual sum.
        parallel: mixer and MLP both read the layer's input (GPT-J, NeoX).
        dropout: probability of dropout before each residual sum.
    """

    mixer: Mixer | None
    mlp: FeedForward | None
    mixer_norm: Norm | None
    mlp_norm: Norm | None
    mixer_output_norm: Norm | None = None
    mlp_output_norm: Norm | None = None
    parallel: bool = False
    dropout: float = 0.0
