"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

In training the latents are projected up to whole heads: attention itself is multi-head
with keys wider than values, and what is kept is the latents and the heads.
"""

from __future__ import annotations

from tonnage.algebra import Number, exact_div
from tonnage.arch import LatentAttention
from tonnage.ledger.core_attention import Core, core_attention, kept_context
from tonnage.ledger.elementwise import norm
from tonnage.ledger.indexer import indexer
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.ledger.pairs import Sight
from tonnage.plan import Setting

UP = ("mla_up_proj",)
"""The projections up from the latents and what follows them, up to the core."""


def latent_attention(
    setting: Setting, spec: LatentAttention, normed: Tensor
) -> tuple[Operations, Tensor]:
    """Latent attention from the normed input to the output projection.

    Args:
        setting: the run.
        spec: heads, ranks and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    key_width = spec.nope_head_dim + spec.rope_head_dim
    queries, query = _queries(setting, spec, normed, spec.heads * key_width)
    pairs, raised = _keys_and_values(setting, spec, normed)
    joined, (query, key, value) = _join(setting, spec, query, raised)
    shape = Core(
        heads=spec.heads,
        kv_heads=spec.heads,
        key_width=key_width,
        value_width=spec.value_head_dim,
        sight=Sight(top_k=spec.top_k),
        dropout=spec.dropout,
    )
    picks = _picks(setting, spec, normed)
    core, context = core_attention(setting, shape, query, key, value)
    kept = kept_context(setting, context)
    out = Linear(
        name="attention.output",
        width_in=spec.heads * spec.value_head_dim,
        width_out=hidden,
        split="row",
        bias=spec.bias,
        target="o_proj",
    )
    projected, partial = linear(
        setting, out, Rows(read=context, kept=kept, tokens=setting.tokens, degree=setting.tp)
    )
    leave, branch = scatter(setting, partial, hidden)
    return (*queries, *pairs, joined, *picks, *core, *projected, *leave), branch


def _picks(setting: Setting, spec: LatentAttention, normed: Tensor) -> Operations:
    """The keys that this layer's own indexer picks, from the latent of the queries."""
    if spec.indexer is None:
        return ()
    source = normed
    if spec.indexer.query_rank is not None:
        elements = setting.shard_tokens * spec.indexer.query_rank
        source = Tensor(name="attention.q_latent", elements=elements, format=setting.stream)
    return indexer(setting, spec.indexer, normed, source, Sight(top_k=spec.top_k))


def _replicated(setting: Setting, tensor: Tensor) -> Rows:
    """The rows of a projection that every tensor-parallel rank does for its own tokens."""
    return Rows(read=tensor, kept=tensor, tokens=setting.shard_tokens, degree=1)


def _split(setting: Setting, full: Tensor, kept: Tensor) -> Rows:
    return Rows(read=full, kept=kept, tokens=setting.tokens, degree=setting.tp)


def _queries(
    setting: Setting, spec: LatentAttention, normed: Tensor, width: Number
) -> tuple[Operations, Tensor]:
    hidden = setting.architecture.hidden
    if spec.query_rank is None:
        entry, full = gather(setting, normed, hidden)
        direct = Linear(
            name="attention.q", width_in=hidden, width_out=width, split="column", target="q_proj"
        )
        done, query = linear(setting, direct, _split(setting, full, normed))
        return (*entry, *done), query
    down = Linear(
        name="attention.q_down",
        width_in=hidden,
        width_out=spec.query_rank,
        bias=spec.bias,
        target="q_proj",
    )
    up = Linear(
        name="attention.q_up",
        width_in=spec.query_rank,
        width_out=width,
        split="column",
        target="q_proj",
        modules=UP,
    )
    reduced, latent = linear(setting, down, _replicated(setting, normed))
    scaled, latent = norm(
        setting,
        spec.norm,
        name="attention.q_latent",
        read=latent,
        width=spec.query_rank,
        modules=(),
    )
    entry, full = gather(setting, latent, spec.query_rank, UP)
    raised, query = linear(setting, up, _split(setting, full, latent))
    return (*reduced, *scaled, *entry, *raised), query


def _keys_and_values(
    setting: Setting, spec: LatentAttention, normed: Tensor
) -> tuple[Operations, Tensor]:
    """One latent for keys and values, and one key with position shared by all heads."""
    joint = spec.kv_rank + spec.rope_head_dim
    down = Linear(
        name="attention.kv_down",
        width_in=setting.architecture.hidden,
        width_out=joint,
        bias=spec.bias,
        target="k_proj",
    )
    reduced, both = linear(setting, down, _replicated(setting, normed))
    tokens = setting.shard_tokens
    latent = Tensor(name="attention.kv_split", elements=tokens * spec.kv_rank, format=both.format)
    # The shared key is a view, and keeps the whole projection alive beside a contiguous
    # latent. Where the latent is a view too, whatever keeps one keeps the projection.
    fused = setting.runtime.qkv == "fused"
    split = Operation(
        name="attention.kv_split",
        kind="elementwise",
        inputs=(both,),
        outputs=(latent,),
        saves=(both,) if fused else (),
    )
    scaled, latent = norm(
        setting,
        spec.norm,
        name="attention.kv_latent",
        read=latent,
        width=spec.kv_rank,
        modules=(),
        storage=None if fused else both,
    )
    entry, full = gather(setting, latent, spec.kv_rank, UP)
    per_head = spec.nope_head_dim + spec.value_head_dim
    up = Linear(
        name="attention.kv_up",
        width_in=spec.kv_rank,
        width_out=spec.heads * per_head,
        split="column",
        target="v_proj",
        modules=UP,
    )
    raised, tensor = linear(setting, up, _split(setting, full, latent))
    return (*reduced, split, *scaled, *entry, *raised), tensor


def _join(
    setting: Setting, spec: LatentAttention, query: Tensor, raised: Tensor
) -> tuple[Operation, tuple[Tensor, Tensor, Tensor]]:
    """Turn queries and the shared key by position; join each head's two parts.

    A value that is a view of the up projection keeps all of it alive; a contiguous one
    only itself. Unfused attention multiplies a contiguous copy.
    """
    heads = setting.tokens * exact_div(spec.heads, setting.tp)
    width = spec.nope_head_dim + spec.rope_head_dim
    turned = query.cast("attention.query", setting.format)
    key = Tensor(name="attention.key", elements=heads * width, format=setting.format)
    value = raised
    if setting.runtime.qkv == "fused" or setting.plan.attention == "eager":
        value = Tensor(
            name="attention.value", elements=heads * spec.value_head_dim, format=setting.format
        )
    outputs = (turned, key, value) if value is not raised else (turned, key)
    operation = Operation(
        name="attention.rope",
        kind="elementwise",
        inputs=(query, raised),
        outputs=outputs,
        modules=UP,
    )
    return operation, (turned, key, value)
