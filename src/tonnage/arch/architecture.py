"""What is trained: the facts of a config.json, and nothing derived from them.

An architecture is a list of layers. A layer names its mixer (what moves information
between positions) and its feed-forward part, each a small frozen dataclass, so that a
new hybrid is another list and not another branch. No formula stands here: widths are
counted in `tonnage.ledger`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from tonnage.arch.constants import UNKNOWN, Constants
from tonnage.arch.feed_forward import MoE
from tonnage.arch.layer import Layer
from tonnage.arch.norm import Norm
from tonnage.arch.vision import Patches, VisionTower


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model as its config.json describes it.

    Attributes:
        name: what people call it.
        family: the config's ``model_type``.
        hidden: width of the residual stream, h.
        vocab: rows of the token embedding, V (before any padding by a runtime).
        layers: the decoder layers, first to last.
        final_norm: the norm before the head, or None.
        tied_embeddings: the head is the transpose of the token embedding.
        max_positions: the context length that the config names; None where it names none (Mamba).
        learned_positions: rows of a learnt position embedding; 0 where there is none.
        embedding_width: width of the token embedding where it differs from ``hidden``
            and two projections join them (OPT-350M); None: the same.
        embedding_norm: a norm right after the embedding (BLOOM), or None.
        embedding_dropout: probability of dropout after the embedding.
        head_bias: the head has a bias.
        logits_softcap: logits pass through ``cap * tanh(logits / cap)``.
        mtp_layers: multi-token-prediction layers that the config names. They are counted
            apart: transformers' classes leave them out.
        mtp: the layer that each of them has behind its projection; None where there are
            none, or where it is not known.
        streams: parallel residual streams that a learnt mixture joins before the head; 0:
            a plain residual.
        per_layer_vocab: rows of a second token embedding, which feeds every layer an input
            of its own (Gemma 4); 0: there is none.
        token_types: rows of a table of segment embeddings (BERT).
        head_transform: a dense layer with an activation and a LayerNorm before the output
            projection (BERT).
        patches: what takes the place of the token embedding in an image model, whose
            ``vocab`` is the number of labels; None: tokens.
        encoder: the layers of an encoder that the decoder attends to (T5); none: ().
        encoder_norm: the norm behind them, or None.
        vision: the image encoder, or None.
        constants: numbers that decide what is computed, and nothing that it costs.
        source: where the facts come from.
    """

    name: str
    family: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    final_norm: Norm | None
    tied_embeddings: bool
    max_positions: int | None
    learned_positions: int = 0
    embedding_width: int | None = None
    embedding_norm: Norm | None = None
    embedding_dropout: float = 0.0
    head_bias: bool = False
    logits_softcap: bool = False
    mtp_layers: int = 0
    mtp: Layer | None = None
    streams: int = 0
    per_layer_vocab: int = 0
    token_types: int = 0
    head_transform: bool = False
    patches: Patches | None = None
    encoder: tuple[Layer, ...] = ()
    encoder_norm: Norm | None = None
    vision: VisionTower | None = None
    constants: Constants = UNKNOWN
    source: str = ""

    def kinds(self) -> dict[Layer, int]:
        """Each distinct layer and how often it occurs, in order of first appearance."""
        return dict(Counter(self.layers))

    @property
    def only_counted(self) -> str:
        """Why a run of it is not modelled, though its parameters are counted; else empty."""
        if self.encoder:
            return "an encoder and a decoder, whose sequences differ in length"
        return "a model of images, which no sequence length describes" if self.patches else ""

    @property
    def has_indexer(self) -> bool:
        """Whether an indexer picks what any layer sees."""
        mixers = (layer.mixer for layer in self.layers)
        return any(getattr(mixer, "indexer", None) is not None for mixer in mixers)

    @cached_property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(isinstance(layer.mlp, MoE) for layer in self.layers)
