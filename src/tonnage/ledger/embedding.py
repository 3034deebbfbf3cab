"""The token embedding, learnt positions, and what follows them before the first layer."""

from __future__ import annotations

import dataclasses

from tonnage.algebra import ceil_div, exact_div, minimum
from tonnage.ledger.elementwise import dropout_mask, norm
from tonnage.ledger.linear import Linear, Rows, linear, sum_over_ranks
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.ledger.per_layer import per_layer_table
from tonnage.plan import Setting


def token_table(setting: Setting, part: str = "embedding") -> Weight:
    """The vocabulary's rows, split over the tensor-parallel ranks, of the embedding or the head."""
    architecture = setting.architecture
    return Weight(
        name=f"{part}.weight",
        shape=(
            exact_div(setting.vocab, setting.tp),
            architecture.embedding_width or architecture.hidden,
        ),
        trains=setting.trains_base,
        base=part == "head" and setting.runtime.quantizes_head,
        embedding=True,
    )


def saved_module(setting: Setting, part: str) -> tuple[Weight, ...]:
    """A copy of a module that trains beside the adapters (PEFT's ``modules_to_save``)."""
    if part not in setting.plan.lora_saved:
        return ()
    table = token_table(setting, part)
    wide = setting.adapter_format
    own = wide if wide != setting.precision.weights else None
    copy = dataclasses.replace(table, name=f"{part}.saved", trains=True, format=own)
    return (copy,)


def embedding(setting: Setting) -> tuple[Operations, Tensor]:
    """Look up tokens: every rank finds its rows, and the sum over ranks is the embedding.

    Returns:
        The operations and the residual stream ``[shard_tokens, hidden]``.
    """
    architecture = setting.architecture
    tokens = setting.shard_tokens
    width = architecture.embedding_width or architecture.hidden
    stream = Tensor(name="embedding", elements=tokens * width, format=setting.stream)
    operations = [*_lookup(setting, stream, _tables(setting))]
    if architecture.embedding_width is not None:
        wide = Linear(name="embedding.project", width_in=width, width_out=architecture.hidden)
        done, stream = linear(
            setting, wide, Rows(read=stream, kept=stream, tokens=tokens, degree=1)
        )
        operations.extend(done)
    if architecture.embedding_norm is not None:
        done, stream = norm(
            setting,
            architecture.embedding_norm,
            name="embedding.norm",
            read=stream,
            width=architecture.hidden,
        )
        operations.extend(done)
    return _streams(setting, operations, stream)


def _tables(setting: Setting) -> tuple[Weight, ...]:
    """The token table or what stands in for it, then segments and learnt positions."""
    architecture = setting.architecture
    first = [token_table(setting)] if architecture.patches is None else _patches(setting)
    first.extend(saved_module(setting, "embedding"))
    more = (("types", architecture.token_types), ("positions", architecture.learned_positions))
    tables = [
        Weight(
            name=f"embedding.{name}",
            shape=(rows, architecture.hidden),
            trains=setting.trains_base,
            embedding=True,
        )
        for name, rows in more
        if rows
    ]
    return (*first, *tables)


def _patches(setting: Setting) -> list[Weight]:
    """The projection of a patch, its bias, and the class token."""
    patches = setting.architecture.patches
    assert patches is not None
    hidden = setting.architecture.hidden
    trains = setting.trains_base
    shapes = ((patches.channels * patches.size**2, hidden), (hidden,), (hidden,))
    names = ("embedding.patch", "embedding.patch_bias", "embedding.class_token")
    return [
        Weight(name=name, shape=shape, trains=trains, embedding=True)
        for name, shape in zip(names, shapes, strict=True)
    ]


def _streams(
    setting: Setting, operations: list[Operation], stream: Tensor
) -> tuple[Operations, Tensor]:
    """Each layer's own input, and the copies that hyper-connections start from."""
    architecture = setting.architecture
    if architecture.per_layer_vocab:
        width = architecture.layers[0].per_layer_input
        operations.extend(per_layer_table(setting, width, stream))
    if architecture.streams:
        wide = Tensor(
            name="embedding.streams",
            elements=stream.elements * architecture.streams,
            format=stream.format,
        )
        operations.append(
            Operation(
                name="embedding.streams", kind="elementwise", inputs=(stream,), outputs=(wide,)
            )
        )
        stream = wide
    return tuple(operations), stream


ROWS_PER_PARTIAL_SUM = 10
"""Token rows that PyTorch's embedding backward sums into one partial sum (``NROWS_PER_THREAD``)."""


def _lookup(setting: Setting, stream: Tensor, weights: tuple[Weight, ...]) -> Operations:
    """Look rows up; other ranks' tokens give zeros, and the sum over ranks is the embedding.

    With sequence parallelism the sum leaves each rank its share of the sequence.
    """
    whole = Tensor(
        name="embedding.rows" if setting.sp else stream.name,
        elements=stream.elements * (setting.tp if setting.sp else 1),
        format=stream.format,
    )
    dropped = setting.architecture.embedding_dropout > 0
    look = Operation(
        name="embedding",
        kind="elementwise",
        outputs=(whole,),
        weights=weights,
        collectives=() if setting.sp else sum_over_ranks(setting, whole),
        saves=(dropout_mask("embedding", stream.elements),) if dropped else (),
        scratch_backward=(_partial_sums(setting, weights[0]),),
    )
    if not setting.sp:
        return (look,)
    masked = whole
    operations = [look]
    if setting.runtime.embedding_mask == "copy":
        masked = whole.cast("embedding.masked", whole.format)
        operations.append(
            Operation(name=masked.name, kind="elementwise", inputs=(whole,), outputs=(masked,))
        )
    leave = Operation(
        name="embedding.reduce",
        kind="communication",
        inputs=(masked,),
        outputs=(stream,),
        collectives=sum_over_ranks(setting, masked),
    )
    return (*operations, leave)


def _partial_sums(setting: Setting, table: Weight) -> Tensor:
    """Sums in fp32, by run of equal tokens and by piece of a run (``embedding_dense_backward``)."""
    rows, width = table.shape
    runs = minimum(setting.tokens, rows)
    pieces = ceil_div(setting.tokens, ROWS_PER_PARTIAL_SUM) + runs
    return Tensor(name="embedding.sums", elements=pieces * width, format="fp32")
