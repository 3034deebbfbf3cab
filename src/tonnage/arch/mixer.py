"""Softmax attention: what moves information between the positions of a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tonnage.arch.norm import RMSNORM, Norm


@dataclass(frozen=True, kw_only=True)
class Indexer:
    """A small attention that picks which keys the real one sees (DeepSeek-V3.2).

    Its scores are ``Σ_j w_j · ReLU(q_j · k)`` over its heads, with one key a position
    (DeepSeek-V3.2, arXiv 2512.02556, section 2.1).

    Attributes:
        heads: query heads of the indexer.
        head_dim: width of its queries and of its one key.
        query_rank: width of the latent that queries are projected from; None: the hidden state.
        query_norm: norm of each query head, or None.
        key_norm: norm of the key.
        head_weights: a projection weighs the heads; without one they are compared by
            their largest score (MiniMax-M3).
    """

    heads: int
    head_dim: int
    query_rank: int | None
    query_norm: Norm | None
    key_norm: Norm
    head_weights: bool


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Softmax attention with ``heads`` query heads and ``kv_heads`` key and value heads.

    Multi-head attention has ``kv_heads == heads``, multi-query attention 1, and
    grouped-query attention (arXiv 2305.13245) something between.

    Attributes:
        heads: query heads, a.
        kv_heads: key and value heads, k.
        head_dim: width of a query or key head, d.
        value_head_dim: width of a value head where it differs (MiMo-V2); None: the same.
        qkv_bias: biases on the query, key and value projections.
        output_bias: a bias on the output projection.
        qk_norm: normalisation of queries and keys, or None.
        qk_norm_over: whether that norm spans one head with one weight for all of them
            (``head``), one head with a weight for each (``heads``, Command R+), or all
            heads of the projection at once (``projection``, OLMo 2).
        value_norm: normalisation of the values (Gemma 4), or None.
        rope: rotary position embedding on queries and keys.
        rope_fraction: share of a head's width that the rotary embedding turns (NeoX: a quarter).
        causal: a query sees no later position; False in encoders.
        window: keys that a query sees (itself and the ``window - 1`` before it); None: all.
        chunk: the sequence is cut into chunks of so many positions, and a query sees what
            is before it in its own (Llama 4); None: it is not.
        top_k: keys that a query sees of all before it, picked by an indexer; None: all.
        indexer: the indexer that picks them; None where there is none, or where the pick
            of an earlier layer serves.
        clip: queries, keys and values are clamped after their projections (MPT, OLMo).
        softcap: scores pass through ``cap * tanh(scores / cap)`` (Gemma 2).
        one_projection: the class projects queries, keys and values with one layer (GPT-2).
        softmax_fp32: unfused, the class asks for a softmax in fp32 (not GPT-2).
        sinks: each head has a learnt score that takes part in the softmax (gpt-oss).
        gate: the context is scaled by a learnt sigmoid gate before the output projection:
            one a ``head`` (Step 3.5), one an ``element`` (Qwen3-Next), or None.
        keys_as_values: values are the projected keys, without position (Gemma 4).
        shares_kv: keys and values are those of an earlier layer (Gemma 4): none are
            projected, none are kept once more.
        cross: keys and values come from an encoder's output.
        relative_buckets: rows of a table of biases by distance, one a head (T5); 0: none.
        dropout: probability of dropout on the attention weights.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Norm | None = None
    qk_norm_over: Literal["head", "heads", "projection"] = "head"
    value_norm: Norm | None = None
    rope: bool = True
    rope_fraction: float = 1.0
    causal: bool = True
    window: int | None = None
    chunk: int | None = None
    top_k: int | None = None
    indexer: Indexer | None = None
    clip: bool = False
    softcap: bool = False
    one_projection: bool = False
    softmax_fp32: bool = True
    sinks: bool = False
    gate: Literal["head", "element"] | None = None
    keys_as_values: bool = False
    shares_kv: bool = False
    cross: bool = False
    relative_buckets: int = 0
    dropout: float = 0.0

    @property
    def value_width(self) -> int:
        """Width of a value head."""
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def is_local(self) -> bool:
        """Whether a query sees only some of the positions before it."""
        return not (self.window is None and self.chunk is None and self.top_k is None)


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
        top_k: keys that a query sees of all before it, picked by an indexer; None: all.
        indexer: the indexer that picks them; None where there is none, or where the pick
            of an earlier layer serves (GLM-5.2).
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
    top_k: int | None = None
    indexer: Indexer | None = None
    dropout: float = 0.0

    @property
    def is_local(self) -> bool:
        """Whether a query sees only some of the positions before it."""
        return self.top_k is not None


@dataclass(frozen=True, kw_only=True)
class CompressedAttention:
    """Attention over a window and over compressed blocks of all positions (DeepSeek-V4).

    Queries come from a latent; there is one key a position, and it is the value as well.
    Beyond the window, keys are weighted sums over ``ratio`` positions. The output is
    projected group by group, then jointly (``DeepseekV4Attention`` in transformers).

    Attributes:
        heads: query heads, a.
        head_dim: width of a head, of the key and of the value.
        query_rank: width of the query latent.
        output_groups: groups of heads that the first output projection keeps apart.
        output_rank: width that each group is projected to.
        window: positions that a query sees whole.
        ratio: positions in a compressed block; None: the layer has the window alone.
        overlapping: a block also reads the one before it, through a second projection.
        top_k: blocks that a query sees of all before it, picked by an indexer; None: all.
        indexer: the indexer; it compresses its own keys at the same ratio.
        dropout: probability of dropout on the attention weights.
    """

    heads: int
    head_dim: int
    query_rank: int
    output_groups: int
    output_rank: int
    window: int
    ratio: int | None = None
    overlapping: bool = False
    top_k: int | None = None
    indexer: Indexer | None = None
    dropout: float = 0.0

    @property
    def is_local(self) -> bool:
        """Whether a query sees only some of the positions before it."""
        return True
