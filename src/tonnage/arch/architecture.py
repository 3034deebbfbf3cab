"""What is trained: the facts of a config.json, and nothing derived from them.

An architecture is a list of layers. A layer names its mixer (what moves information
between positions) and its feed-forward part, each a small frozen dataclass, so that a
new hybrid is another list and not another branch. No formula stands here: widths are
counted in `tonnage.ledger`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A normalisation over the last axis of its input.

    Attributes:
        kind: ``rmsnorm`` or ``layernorm``.
        bias: whether it has a bias beside its weight.
        weight: whether it has a weight at all.
    """

    kind: Literal["rmsnorm", "layernorm"]
    bias: bool = False
    weight: bool = True


RMSNORM = Norm(kind="rmsnorm")
LAYERNORM = Norm(kind="layernorm", bias=True)


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Softmax attention with ``heads`` query heads and ``kv_heads`` key and value heads.

    Multi-head attention has ``kv_heads == heads``, multi-query attention 1, and
    grouped-query attention (arXiv 2305.13245) something between.

    Attributes:
        heads: query heads, a.
        kv_heads: key and value heads, k.
        head_dim: width of a head, d.
        qkv_bias: biases on the query, key and value projections.
        output_bias: a bias on the output projection.
        qk_norm: normalisation of queries and keys, or None.
        qk_norm_over: whether that norm spans one head or all heads of the projection.
        rope: rotary position embedding on queries and keys.
        rope_fraction: share of a head's width that the rotary embedding turns (NeoX: a quarter).
        causal: a query sees no later position; False in image encoders.
        window: keys that a query sees (itself and the ``window - 1`` before it); None: all.
        softcap: scores pass through ``cap * tanh(scores / cap)`` (Gemma 2).
        dropout: probability of dropout on the attention weights.
    """

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Norm | None = None
    qk_norm_over: Literal["head", "projection"] = "head"
    rope: bool = True
    rope_fraction: float = 1.0
    causal: bool = True
    window: int | None = None
    softcap: bool = False
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention, MLA (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    Attributes:
        heads: query heads, a.
        query_rank: width of the query latent; None: queries are projected directly.
        kv_rank: width of the key-value latent.
        nope_head_dim: width of a query or key head without position.
        rope_head_dim: width of a query head with position, and of the one shared key.
        value_head_dim: width of a value head.
        bias: biases on the down projections and the output projection.
        norm: the normalisation of both latents.
        dropout: probability of dropout on the attention weights.
    """

    heads: int
    query_rank: int | None
    kv_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    bias: bool = False
    norm: Norm = RMSNORM
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class MLP:
    """A feed-forward block: up, activation, down; gated ones have two up projections.

    Attributes:
        intermediate: width between the projections, f.
        gated: ``down(act(gate(x)) * up(x))`` (SwiGLU, GeGLU) and not ``down(act(up(x)))``.
        activation: the activation's name as the config gives it.
        bias: biases on all projections.
    """

    intermediate: int
    gated: bool
    activation: str
    bias: bool = False


@dataclass(frozen=True, kw_only=True)
class MoE:
    """A mixture of experts: a router sends each token to ``top_k`` of ``experts`` MLPs.

    Attributes:
        experts: routed experts, E.
        top_k: experts that a token visits, K.
        expert: one routed expert.
        shared: the MLP that every token visits beside the routed ones, or None.
        shared_gate: the shared expert's output is scaled by a learnt gate (Qwen2-MoE).
        router_bias: the router projection has a bias.
    """

    experts: int
    top_k: int
    expert: MLP
    shared: MLP | None = None
    shared_gate: bool = False
    router_bias: bool = False


Mixer: TypeAlias = Attention | LatentAttention
FeedForward: TypeAlias = MLP | MoE


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer: what mixes positions, what mixes channels, and the norms around them.

    Attributes:
        mixer: the attention or other mixer.
        mlp: the feed-forward part.
        mixer_norm: norm of the mixer's input, or None.
        mixer_output_norm: norm of the mixer's output before the residual sum (Gemma 2).
        mlp_norm: norm of the feed-forward input; None where it shares the mixer's.
        mlp_output_norm: norm of the feed-forward output before the residual sum.
        parallel: mixer and MLP both read the layer's input (GPT-J, NeoX).
        dropout: probability of dropout before each residual sum.
    """

    mixer: Mixer
    mlp: FeedForward
    mixer_norm: Norm | None
    mlp_norm: Norm | None
    mixer_output_norm: Norm | None = None
    mlp_output_norm: Norm | None = None
    parallel: bool = False
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VisionTower:
    """An image encoder in front of the decoder, with the projector that joins them.

    Attributes:
        hidden: its width.
        layers: its layers.
        patch_size: side of a square patch, in pixels.
        channels: colour channels of a patch.
        patch_bias: a bias on the patch embedding.
        positions: learnt position embeddings.
        final_norm: the norm after the last layer, or None.
        projector: shapes of the weights between the tower and the decoder.
    """

    hidden: int
    layers: tuple[Layer, ...]
    patch_size: int
    positions: int
    channels: int = 3
    patch_bias: bool = True
    final_norm: Norm | None = LAYERNORM
    projector: tuple[tuple[int, ...], ...] = ()


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
        max_positions: the context length that the config names.
        learned_positions: rows of a learnt position embedding; 0 where there is none.
        embedding_width: width of the token embedding where it differs from ``hidden``
            and two projections join them (OPT-350M); None: the same.
        embedding_norm: a norm right after the embedding (BLOOM), or None.
        embedding_dropout: probability of dropout after the embedding.
        head_bias: the head has a bias.
        logits_softcap: logits pass through ``cap * tanh(logits / cap)``.
        mtp_layers: multi-token-prediction layers that the config names (not counted as
            parameters, as in transformers' classes).
        vision: the image encoder, or None.
        source: where the facts come from.
    """

    name: str
    family: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    final_norm: Norm | None
    tied_embeddings: bool
    max_positions: int
    learned_positions: int = 0
    embedding_width: int | None = None
    embedding_norm: Norm | None = None
    embedding_dropout: float = 0.0
    head_bias: bool = False
    logits_softcap: bool = False
    mtp_layers: int = 0
    vision: VisionTower | None = None
    source: str = ""

    def kinds(self) -> dict[Layer, int]:
        """Each distinct layer and how often it occurs, in order of first appearance."""
        return dict(Counter(self.layers))

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(isinstance(layer.mlp, MoE) for layer in self.layers)
