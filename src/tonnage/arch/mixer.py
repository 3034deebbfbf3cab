"""Softmax attention: what moves information between the positions of a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tonnage.arch.norm import RMSNORM, Norm


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
