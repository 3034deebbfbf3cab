"""Softmax attention: multi-head, grouped-query and multi-query; full, local or sparse."""

from __future__ import annotations

import dataclasses

from tonnage.algebra import exact_div, where
from tonnage.arch import Attention
from tonnage.ledger.adapter import Adapter, adapted, adapter
from tonnage.ledger.core_attention import Core, core_attention, kept_context
from tonnage.ledger.elementwise import norm
from tonnage.ledger.indexer import indexer
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.ledger.pairs import Sight
from tonnage.ledger.rotary import Heads, rotary
from tonnage.plan import Setting


def attention(setting: Setting, spec: Attention, normed: Tensor) -> tuple[Operations, Tensor]:
    """Attention from the normed input to the output projection.

    Args:
        setting: the run.
        spec: heads and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    entry, full = gather(setting, normed, hidden)
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    projections, heads = _project(setting, spec, rows)
    positioned, heads = _position(setting, spec, heads)
    picks: Operations = ()
    if spec.indexer is not None:
        picks = indexer(setting, spec.indexer, normed, normed, Sight(top_k=spec.top_k))
    core, context = core_attention(setting, _core(setting, spec), *heads)
    core = _while_packed(setting, core, projections)
    gated, read = _gate(setting, spec, rows, context)
    kept = kept_context(setting, context) if read is context else read
    out = Linear(
        name="attention.output",
        width_in=spec.heads * spec.value_width,
        width_out=hidden,
        split="row",
        bias=spec.output_bias,
        target="o_proj",
    )
    projected, partial = linear(
        setting, out, Rows(read=read, kept=kept, tokens=setting.tokens, degree=setting.tp)
    )
    projected = _untransposed(setting, projected, read)
    leave, branch = scatter(setting, partial, hidden)
    return (*entry, *projections, *positioned, *picks, *core, *gated, *projected, *leave), branch


def _while_packed(setting: Setting, core: Operations, projections: Operations) -> Operations:
    """Where heads are packed, the projection itself lives in its frame until the core is done."""
    if setting.runtime.rotary != "packed":
        return core
    held = tuple(tensor for operation in projections for tensor in operation.outputs)
    return (*core[:-1], dataclasses.replace(core[-1], frames=held))


def _untransposed(setting: Setting, projected: Operations, context: Tensor) -> Operations:
    """With the sequence first and several sequences, the last product reads a copy in order."""
    if setting.runtime.rotary != "packed":
        return projected
    copy = context.cast("attention.context_in_order", setting.format)
    some = Tensor(
        name=copy.name, elements=where(setting.mbs > 1, copy.elements, 0), format=copy.format
    )
    return (dataclasses.replace(projected[0], scratch=(some,)), *projected[1:])


def _core(setting: Setting, spec: Attention) -> Core:
    fused = spec.one_projection or setting.runtime.qkv == "fused"
    moved = spec.rope or spec.qk_norm is not None or spec.clip
    return Core(
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        key_width=spec.head_dim,
        value_width=spec.value_width,
        sight=Sight(
            causal=spec.causal and not spec.cross,
            window=spec.window,
            chunk=spec.chunk,
            top_k=spec.top_k,
        ),
        softcap=spec.softcap,
        softmax_fp32=spec.softmax_fp32,
        sinks=spec.sinks,
        relative_buckets=spec.relative_buckets,
        dropout=spec.dropout,
        borrowed=spec.shares_kv,
        views=fused and not moved,
    )


def _project(setting: Setting, spec: Attention, rows: Rows) -> tuple[Operations, Heads]:
    """Queries, keys and values, as far as they are not another layer's or each other's."""
    local = setting.tokens * exact_div(spec.kv_heads, setting.tp)
    tensors = {
        "k": Tensor(
            name="attention.k_shared", elements=local * spec.head_dim, format=setting.format
        ),
        "v": Tensor(
            name="attention.v_shared", elements=local * spec.value_width, format=setting.format
        ),
    }
    widths = {
        "q": spec.heads * spec.head_dim,
        "k": spec.kv_heads * spec.head_dim,
        "v": spec.kv_heads * spec.value_width,
    }
    own = "q" if spec.shares_kv else "qk" if spec.keys_as_values else "qkv"
    outside = _encoder_rows(setting, rows) if spec.cross else rows
    operations: list[Operation] = []
    fused = spec.one_projection or setting.runtime.qkv == "fused"
    joined = "attention.qkv" if fused else None
    for letter in own:
        part = Linear(
            name=f"attention.{letter}",
            width_in=setting.architecture.hidden,
            width_out=widths[letter],
            split="column",
            bias=spec.qkv_bias,
            target=f"{letter}_proj",
            part_of=joined,
        )
        done, tensors[letter] = linear(setting, part, rows if letter == "q" else outside)
        operations.extend(done)
    if adapted(setting, "qkv_proj") and own == "qkv":
        operations.extend(_adapt_all(setting, rows, widths))
    if spec.keys_as_values:
        tensors["v"] = tensors["k"]
    heads = (tensors["q"], tensors["k"], tensors["v"])
    if not spec.clip:
        return tuple(operations), heads
    clip, heads = _clipped(setting, heads)
    return (*operations, clip), heads


def _clipped(setting: Setting, heads: Heads) -> tuple[Operation, Heads]:
    """Queries, keys and values clamped; what lies outside has no gradient, so inputs are kept."""
    query, key, value = (tensor.cast(f"{tensor.name}_clipped", setting.format) for tensor in heads)
    operation = Operation(
        name="attention.clip",
        kind="elementwise",
        inputs=heads,
        outputs=(query, key, value),
        saves=heads,
    )
    return operation, (query, key, value)


def _adapt_all(setting: Setting, rows: Rows, widths: dict[str, int]) -> Operations:
    """One adapter over queries, keys and values, where they are one layer to PEFT."""
    name = "attention.qkv"
    width = exact_div(sum(widths.values()), rows.degree)
    frozen = Weight(name=name, shape=(setting.architecture.hidden, width), trains=False)
    output = Tensor(name=name, elements=rows.tokens * width, format=setting.format)
    spec = Adapter(
        name=name, read=rows.read, kept=rows.kept, tokens=rows.tokens, frozen=frozen, entry=name
    )
    return adapter(setting, spec, output)[0]


def _encoder_rows(setting: Setting, rows: Rows) -> Rows:
    """The encoder's output, as long as the decoder's sequence; every layer reads the same."""
    width = setting.architecture.hidden
    output = Tensor(name="encoder.output", elements=setting.tokens * width, format=setting.stream)
    return Rows(read=output, kept=output, tokens=rows.tokens, degree=rows.degree)


def _position(setting: Setting, spec: Attention, heads: Heads) -> tuple[Operations, Heads]:
    """Norms of the heads, then the rotary embedding; each writes new tensors."""
    named = dict(zip("qkv", heads, strict=True))
    counts = {"q": spec.heads, "k": spec.kv_heads, "v": spec.kv_heads}
    own = "q" if spec.shares_kv else "qkv"
    operations: list[Operation] = []
    for letter in own:
        rule = spec.value_norm if letter == "v" else spec.qk_norm
        if rule is None:
            continue
        whole = exact_div(counts[letter] * spec.head_dim, setting.tp)
        over = "head" if letter == "v" else spec.qk_norm_over
        width = spec.value_width if letter == "v" else spec.head_dim
        done, named[letter] = norm(
            setting,
            rule,
            name=f"attention.{letter}_norm",
            read=named[letter],
            width=whole if over == "projection" else width,
            weights=whole if over == "heads" else None,
            modules=(),
        )
        operations.extend(done)
    done, turned = rotary(setting, spec, (named["q"], named["k"], named["v"]))
    return (*operations, *done), turned


def _gate(
    setting: Setting, spec: Attention, rows: Rows, context: Tensor
) -> tuple[Operations, Tensor]:
    """A learnt gate on the context; both factors of the product are kept."""
    if spec.gate is None:
        return (), context
    wide = spec.value_width if spec.gate == "element" else 1
    part = Linear(
        name="attention.gate",
        width_in=setting.architecture.hidden,
        width_out=spec.heads * wide,
        split="column",
        bias=spec.qkv_bias and spec.gate == "element",
    )
    done, logits = linear(setting, part, rows)
    scale = logits.cast("attention.gate_sigmoid", setting.format)
    gated = context.cast("attention.gated", setting.format)
    product = Operation(
        name="attention.gate_product",
        kind="elementwise",
        inputs=(context, logits),
        outputs=(gated,),
        saves=(context, scale),
    )
    return (*done, product), gated
