"""The indexer of sparse attention: a small attention that picks keys for the real one.

DeepSeek-V3.2, arXiv 2512.02556, section 2.1: ``I = Σ_j w_j · ReLU(q_j · k)``. What it picks
are indices, which have no gradient: the loss of the language model does not train an
indexer, nothing of it is kept for backward, and it has no backward pass. The loss of its
own that trains it is not modelled.
"""

from __future__ import annotations

import dataclasses

from tonnage.algebra import Number, exact_div, minimum
from tonnage.arch.mixer import Indexer
from tonnage.arch.norm import Norm
from tonnage.ledger.elementwise import norm
from tonnage.ledger.linear import Linear, Rows, linear
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor
from tonnage.ledger.pairs import Sight, twice_pairs
from tonnage.plan import Setting


def indexer(
    setting: Setting,
    spec: Indexer,
    normed: Tensor,
    source: Tensor,
    sight: Sight,
    keys: tuple[Operations, Tensor] | None = None,
) -> Operations:
    """Score every key before each query, and pick.

    Every tensor-parallel rank has the whole indexer and works on the tokens of its shard,
    against the keys of all.

    Args:
        setting: the run.
        spec: its heads and widths.
        normed: ``[shard_tokens, hidden]``, which keys and head weights are projected from.
        source: ``[shard_tokens, query_rank]`` or ``normed``, which queries come from.
        sight: what the attention that it serves sees; ``top_k`` of it are picked.
        keys: how its keys are made, where that is not a projection of every position.
    """
    hidden = setting.architecture.hidden
    width = spec.heads * spec.head_dim
    rank = spec.query_rank or hidden
    queries, query = _part(setting, "q", source, (rank, width), spec.query_norm, spec.head_dim)
    made, key = keys or _part(
        setting, "k", normed, (hidden, spec.head_dim), spec.key_norm, spec.head_dim
    )
    operations = [*queries, *made]
    read = [query, key]
    if spec.head_weights:
        weigh, weights = _part(setting, "weights", normed, (hidden, spec.heads), None, 1)
        operations.extend(weigh)
        read.append(weights)
    operations.extend(_pick(setting, spec, tuple(read), sight))
    return tuple(_untrained(operation) for operation in operations)


def _untrained(operation: Operation) -> Operation:
    """The operation as it is under ``torch.no_grad``."""
    weights = tuple(dataclasses.replace(weight, trains=False) for weight in operation.weights)
    return dataclasses.replace(operation, saves=(), flops_backward=0, weights=weights)


def score_flops(setting: Setting, spec: Indexer, sight: Sight) -> Number:
    """FLOPs of the scores: ``2 · heads · width`` a pair, and ``2 · heads`` to weigh them.

    Every query meets every key before it, whatever is picked of them afterwards.
    """
    every = dataclasses.replace(sight, top_k=None, window=None)
    share = setting.cp * (setting.tp if setting.sp else 1)
    per_pair = spec.heads * (spec.head_dim + (1 if spec.head_weights else 0))
    return exact_div(setting.mbs * twice_pairs(setting, every) * per_pair, share)


def _part(
    setting: Setting,
    name: str,
    read: Tensor,
    widths: tuple[Number, Number],
    rule: Norm | None,
    head: Number,
) -> tuple[Operations, Tensor]:
    """A projection and the norm of each of its heads."""
    part = Linear(
        name=f"attention.indexer.{name}", width_in=widths[0], width_out=widths[1], narrow=False
    )
    rows = Rows(read=read, kept=read, tokens=setting.shard_tokens, degree=1)
    done, tensor = linear(setting, part, rows)
    if rule is None:
        return done, tensor
    scaled, tensor = norm(
        setting, rule, name=f"{part.name}_norm", read=tensor, width=head, modules=()
    )
    return (*done, *scaled), tensor


def _pick(setting: Setting, spec: Indexer, read: tuple[Tensor, ...], sight: Sight) -> Operations:
    """Scores of all pairs in fp32, summed over the heads; the best keys of each query."""
    keys = sight.keys(setting)
    count = keys if sight.top_k is None else minimum(sight.top_k, keys)
    tokens = setting.shard_tokens
    scores = Tensor(name="attention.indexer.scores", elements=tokens * keys, format="fp32")
    indices = Tensor(name="attention.indexer.picked", elements=tokens * count, format="fp32")
    gathered = Tensor(name="keys", elements=setting.tokens * spec.head_dim, format=setting.format)
    wire = (gathered.bytes, indices.bytes * setting.tp) if setting.sp else ()
    product = Operation(
        name="attention.indexer.scores",
        kind="matmul",
        inputs=read,
        outputs=(scores,),
        flops=score_flops(setting, spec, sight),
        collectives=tuple(
            Collective(kind="all_gather", axis="tp", bytes=size, phase="forward") for size in wire
        ),
    )
    choose = Operation(
        name="attention.indexer.top_k",
        kind="elementwise",
        inputs=(scores,),
        outputs=(indices,),
    )
    return (product, choose)
