"""One layer: what mixes positions, what mixes channels, and the norms around them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeAlias

from tonnage.arch.feed_forward import FeedForward
from tonnage.arch.mixer import Attention, CompressedAttention, LatentAttention
from tonnage.arch.norm import Norm
from tonnage.arch.recurrent import Recurrent

Mixer: TypeAlias = Attention | CompressedAttention | LatentAttention | Recurrent


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
        norm_after_sum: the two norms follow the residual sums instead (BERT).
        cross: attention to an encoder's output between the two parts (T5), or None.
        cross_norm: norm of its input.
        layer_scale: the output of each part is scaled by a learnt weight a channel (CaiT).
        streams: parallel residual streams, mixed by hyper-connections around each part
            (arXiv 2512.24880); 0: a plain residual.
        per_layer_input: width of an embedding of the token that enters after the
            feed-forward part (Gemma 4); None: there is none.
    """

    mixer: Mixer | None
    mlp: FeedForward | None
    mixer_norm: Norm | None
    mlp_norm: Norm | None
    mixer_output_norm: Norm | None = None
    mlp_output_norm: Norm | None = None
    parallel: bool = False
    dropout: float = 0.0
    norm_after_sum: bool = False
    cross: Attention | None = None
    cross_norm: Norm | None = None
    layer_scale: bool = False
    streams: int = 0
    per_layer_input: int | None = None

    def __hash__(self) -> int:
        """That of its fields; layers are counted and looked up often, so it is kept."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))
