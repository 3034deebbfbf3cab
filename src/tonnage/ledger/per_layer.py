"""An input of its own for each layer: a second embedding of the token (Gemma 4).

The embedding of all layers is one table of ``layers · width`` columns; it is joined with a
projection of the first embedding, and each layer reads its own columns
(``Gemma4TextModel.project_per_layer_inputs`` and ``Gemma4TextDecoderLayer``).
"""

from __future__ import annotations

from tonnage.algebra import Number, exact_div
from tonnage.arch import RMSNORM
from tonnage.ledger.elementwise import norm
from tonnage.ledger.linear import Linear, Rows, linear
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def per_layer_table(setting: Setting, width: Number, stream: Tensor) -> Operations:
    """Before the first layer: look up every layer's input and join it with the embedding's.

    Kept: the projection's input, what its norm keeps, and the sum's scale, which is a number.
    """
    columns = width * len(setting.architecture.layers)
    tokens = setting.shard_tokens
    table = Weight(
        name="embedding.per_layer",
        shape=(exact_div(setting.architecture.per_layer_vocab, setting.tp), columns),
        trains=setting.plan.lora_rank is None,
        embedding=True,
    )
    looked_up = Tensor(name="embedding.per_layer", elements=tokens * columns, format=setting.stream)
    lookup = Operation(
        name="embedding.per_layer", kind="elementwise", outputs=(looked_up,), weights=(table,)
    )
    part = Linear(
        name="embedding.per_layer_projection",
        width_in=setting.architecture.hidden,
        width_out=columns,
    )
    rows = Rows(read=stream, kept=stream, tokens=tokens, degree=1)
    done, projected = linear(setting, part, rows)
    scaled, projected = norm(
        setting, RMSNORM, name="embedding.per_layer_norm", read=projected, width=width
    )
    joined = Tensor(
        name="embedding.per_layer_inputs", elements=tokens * columns, format=setting.stream
    )
    add = Operation(
        name="embedding.per_layer_sum",
        kind="elementwise",
        inputs=(looked_up, projected),
        outputs=(joined,),
        passes_gradient=True,
    )
    return (lookup, *done, *scaled, add)


def per_layer_input(setting: Setting, width: Number, stream: Tensor) -> tuple[Operations, Tensor]:
    """In a layer: ``up(act(gate(x)) * input)``, all of it on every rank's own tokens.

    The input's columns are a view of one tensor for all layers, made with the embedding.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its norm.
    """
    hidden = setting.architecture.hidden
    tokens = setting.shard_tokens

    def own(read: Tensor) -> Rows:
        return Rows(read=read, kept=read, tokens=tokens, degree=1)

    gate = Linear(name="layer.per_layer_gate", width_in=hidden, width_out=width)
    up = Linear(name="layer.per_layer_projection", width_in=width, width_out=hidden)
    gated, logits = linear(setting, gate, own(stream))
    activated = logits.cast("layer.per_layer_activated", setting.format)
    product = logits.cast("layer.per_layer_product", setting.format)
    embedded = Tensor(name="layer.per_layer_input", elements=tokens * width, format=setting.stream)
    multiply = Operation(
        name="layer.per_layer_product",
        kind="elementwise",
        inputs=(logits, embedded),
        outputs=(product,),
        saves=(logits, activated, embedded),
    )
    done, branch = linear(setting, up, own(product))
    return (*gated, multiply, *done), branch
