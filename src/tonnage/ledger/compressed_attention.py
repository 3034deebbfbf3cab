"""Attention over a window and over compressed blocks (``DeepseekV4Attention``).

Queries come from a latent, as in MLA. One projected vector a position is key and value of
all heads; beside the nearest of these a query sees blocks, which are weighted sums over
``ratio`` positions, all of them or those that an indexer picks.
"""

from __future__ import annotations

from tonnage.algebra import Number, exact_div
from tonnage.arch import RMSNORM
from tonnage.arch.mixer import CompressedAttention, Indexer
from tonnage.arch.norm import Norm
from tonnage.ledger.core_attention import Core, core_attention
from tonnage.ledger.elementwise import norm
from tonnage.ledger.indexer import indexer
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.ledger.pairs import Sight
from tonnage.plan import Setting

BARE = Norm(kind="rmsnorm", weight=False)


def compressed_attention(
    setting: Setting, spec: CompressedAttention, normed: Tensor
) -> tuple[Operations, Tensor]:
    """Compressed attention from the normed input to the output projection.

    Args:
        setting: the run.
        spec: heads, ranks and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    queries, latent, query = _queries(setting, spec, normed)
    near, key = _keys(setting, spec, normed)
    far, key = _blocks(setting, spec, normed, key)
    picks: Operations = ()
    if spec.indexer is not None:
        picks = _indexer(setting, spec, spec.indexer, normed, latent)
    shape = Core(
        heads=spec.heads,
        kv_heads=1,
        key_width=spec.head_dim,
        value_width=spec.head_dim,
        sight=Sight(window=spec.window),
        far=None if spec.ratio is None else _far(spec),
        sinks=True,
        dropout=spec.dropout,
    )
    core, context = core_attention(setting, shape, query, key, key)
    done, branch = _output(setting, spec, context)
    return (*queries, *near, *far, *picks, *core, *done), branch


def _far(spec: CompressedAttention) -> Sight:
    return Sight(ratio=spec.ratio, top_k=spec.top_k)


def _own(setting: Setting, tensor: Tensor) -> Rows:
    """The rows of a projection that every tensor-parallel rank does for its own tokens."""
    return Rows(read=tensor, kept=tensor, tokens=setting.shard_tokens, degree=1)


def _queries(
    setting: Setting, spec: CompressedAttention, normed: Tensor
) -> tuple[Operations, Tensor, Tensor]:
    """The latent, and queries from it, each head normalised without a weight and turned."""
    down = Linear(
        name="attention.q_down",
        width_in=setting.architecture.hidden,
        width_out=spec.query_rank,
        target="q_proj",
    )
    up = Linear(
        name="attention.q_up",
        width_in=spec.query_rank,
        width_out=spec.heads * spec.head_dim,
        split="column",
        target="q_proj",
    )
    reduced, read = linear(setting, down, _own(setting, normed))
    scaled, latent = norm(
        setting, RMSNORM, name="attention.q_latent", read=read, width=spec.query_rank, modules=()
    )
    entry, full = gather(setting, latent, spec.query_rank)
    rows = Rows(read=full, kept=latent, tokens=setting.tokens, degree=setting.tp)
    raised, query = linear(setting, up, rows)
    levelled, query = norm(
        setting, BARE, name="attention.q_norm", read=query, width=spec.head_dim, modules=()
    )
    turn, query = _turned(setting, query, "attention.q_rotated")
    return (*reduced, *scaled, *entry, *raised, *levelled, turn), latent, query


def _keys(setting: Setting, spec: CompressedAttention, normed: Tensor) -> tuple[Operations, Tensor]:
    """One key a position, which is the value as well; every rank gets those of all tokens."""
    part = Linear(
        name="attention.kv",
        width_in=setting.architecture.hidden,
        width_out=spec.head_dim,
        target="k_proj",
    )
    done, read = linear(setting, part, _own(setting, normed))
    scaled, key = norm(
        setting, RMSNORM, name="attention.kv_norm", read=read, width=spec.head_dim, modules=()
    )
    turn, key = _turned(setting, key, "attention.k_rotated")
    entry, full = gather(setting, key, spec.head_dim)
    return (*done, *scaled, turn, *entry), full


def _blocks(
    setting: Setting, spec: CompressedAttention, normed: Tensor, key: Tensor
) -> tuple[Operations, Tensor]:
    """The compressed keys, behind the near ones in one tensor that attention reads."""
    if spec.ratio is None:
        return (), key
    done, block = _compress(setting, spec, normed, spec.head_dim, "attention.compressor")
    joined = Tensor(
        name="attention.keys", elements=key.elements + block.elements, format=setting.format
    )
    join = Operation(
        name="attention.join", kind="elementwise", inputs=(key, block), outputs=(joined,)
    )
    return (*done, join), joined


def _compress(
    setting: Setting, spec: CompressedAttention, normed: Tensor, width: Number, name: str
) -> tuple[Operations, Tensor]:
    """Weighted sums over ``ratio`` positions, by a softmax over them for each channel.

    Overlapping blocks have a second half of the projections, read by the block after. Kept:
    the values, their weights, and the fp32 softmax that the class computes them in.
    """
    wide = width * (2 if spec.overlapping else 1)
    hidden = setting.architecture.hidden
    operations: list[Operation] = []
    read = []
    for part in ("kv", "gate"):
        done, tensor = linear(
            setting,
            Linear(name=f"{name}.{part}", width_in=hidden, width_out=wide),
            _own(setting, normed),
        )
        operations.extend(done)
        read.append(tensor)
    pool, summed = _pool(setting, spec, (read[0], read[1]), (width, wide), name)
    scaled, block = norm(
        setting, RMSNORM, name=f"{name}.norm", read=summed, width=width, modules=()
    )
    turn, block = _turned(setting, block, f"{name}.rotated")
    return (*operations, pool, *scaled, turn), block


def _pool(
    setting: Setting,
    spec: CompressedAttention,
    read: tuple[Tensor, Tensor],
    widths: tuple[Number, Number],
    name: str,
) -> tuple[Operation, Tensor]:
    """Softmax over the positions of a block, with a bias for each, and the weighted sum."""
    values, gate = read
    weights = gate.cast(f"{name}.weights", setting.format)
    saves = [values, weights]
    if setting.runtime.softmax == "fp32" and setting.format != "fp32":
        saves.append(weights.cast(f"{name}.weights_fp32", "fp32"))
    bias = Weight(
        name=f"{name}.position_bias",
        shape=(spec.ratio, widths[1]),
        trains=setting.plan.lora_rank is None,
    )
    blocks = setting.mbs * (setting.seq // spec.ratio)
    summed = Tensor(name=f"{name}.summed", elements=blocks * widths[0], format=setting.format)
    operation = Operation(
        name=f"{name}.pool",
        kind="elementwise",
        inputs=read,
        outputs=(summed,),
        saves=tuple(saves),
        weights=(bias,),
    )
    return operation, summed


def _indexer(
    setting: Setting,
    spec: CompressedAttention,
    small: Indexer,
    normed: Tensor,
    latent: Tensor,
) -> Operations:
    """The indexer, whose keys are compressed in the same way; none of it has a gradient."""
    done, block = _compress(setting, spec, normed, small.head_dim, "attention.indexer")
    return indexer(setting, small, normed, latent, _far(spec), keys=(done, block))


def _output(
    setting: Setting, spec: CompressedAttention, context: Tensor
) -> tuple[Operations, Tensor]:
    """Turn the context back, since values were turned; project groups apart, then together."""
    hidden = setting.architecture.hidden
    turn, context = _turned(setting, context, "attention.context_turned")
    apart = Linear(
        name="attention.output_a",
        width_in=exact_div(spec.heads * spec.head_dim, spec.output_groups),
        width_out=spec.output_groups * spec.output_rank,
        split="column",
        target="o_proj",
    )
    together = Linear(
        name="attention.output_b",
        width_in=spec.output_groups * spec.output_rank,
        width_out=hidden,
        split="row",
        target="o_proj",
    )
    rows = Rows(read=context, kept=context, tokens=setting.tokens, degree=setting.tp)
    first, middle = linear(setting, apart, rows)
    rows = Rows(read=middle, kept=middle, tokens=setting.tokens, degree=setting.tp)
    second, partial = linear(setting, together, rows)
    leave, branch = scatter(setting, partial, hidden)
    return (turn, *first, *second, *leave), branch


def _turned(setting: Setting, read: Tensor, name: str) -> tuple[Operation, Tensor]:
    output = read.cast(name, setting.format)
    return Operation(name=name, kind="elementwise", inputs=(read,), outputs=(output,)), output
