"""A model spread over the ranks of a plan, with PyTorch's own tools.

Tensor and sequence parallelism by `parallelize_module`, sharding by `fully_shard`, replication
by `DistributedDataParallel`: the order and the layouts are torchtitan's
(``torchtitan/models/llama3/infra/parallelize.py``).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from tonnage.plan import Setting
from tonnage.pytorch.formats import FORMATS
from tonnage.pytorch.recorder import Recorder
from tonnage.pytorch.reference import ReferenceTransformer
from tonnage.pytorch.world import World

SEQUENCE = Shard(1)
"""Between the parallel regions each rank holds its share of the sequence."""


def split_over_tensor_ranks(model: ReferenceTransformer, mesh: Any) -> None:
    """Tensor and sequence parallelism of the reference transformer.

    The vocabulary of embedding, logits and loss is split too; norms read a rank's share of
    the sequence, those of queries and keys its heads.
    """
    parallelize_module(
        model,
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=SEQUENCE),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(
                input_layouts=SEQUENCE, output_layouts=Shard(-1), use_local_output=False
            ),
        },
    )
    model.tie()
    for layer in model.layers:
        parallelize_module(layer, mesh, _layer_styles(layer))


def _layer_styles(layer: nn.Module) -> dict[str, ParallelStyle]:
    column, row = ColwiseParallel(), RowwiseParallel(output_layouts=SEQUENCE)
    styles: dict[str, ParallelStyle] = {
        "attention": _gathered(3),
        **{f"attention.{part}": column for part in "qkv"},
        "attention.output": row,
        "mlp": _gathered(1),
        "mlp.gate": column,
        "mlp.up": column,
        "mlp.down": row,
    }
    for name in ("mixer_norm", "mixer_output_norm", "mlp_norm", "mlp_output_norm"):
        styles[name] = SequenceParallel()
    for name in ("attention.q_norm", "attention.k_norm"):
        styles[name] = SequenceParallel(sequence_dim=2, use_local_output=True)
    there = {name for name, module in layer.named_modules() if module is not None}
    return {name: style for name, style in styles.items() if name in there}


def _gathered(arguments: int) -> PrepareModuleInput:
    """The first argument is gathered over the sequence; the others are no activations."""
    others = (None,) * (arguments - 1)
    return PrepareModuleInput(
        input_layouts=(SEQUENCE, *others), desired_input_layouts=(Replicate(), *others)
    )


def shard_fully(model: nn.Module, layers: Any, setting: Setting, world: World) -> None:
    """A unit a layer, and one of all the rest (``fully_shard``, FSDP2).

    The rest is not told when to reshard: it stays whole from forward to backward, which
    begins with it.
    """
    recipe = setting.precision
    narrow = FORMATS[recipe.compute] if recipe.compute != recipe.weights else None
    policy = MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=FORMATS[recipe.reduction])
    again = setting.zero == 3
    for layer in layers:
        fully_shard(layer, mesh=world.data, mp_policy=policy, reshard_after_forward=again)
    fully_shard(model, mesh=world.data, mp_policy=policy)


def padded_weights(model: nn.Module) -> int:
    """Weights whose rows a mesh does not divide: `fully_shard` pads every shard to the largest."""
    count = 0
    for weight in model.parameters():
        if isinstance(weight, DTensor):
            sizes = zip(weight.placements, weight.device_mesh.shape, strict=True)
            parts = math.prod(size for placement, size in sizes if placement.is_shard())
            count += weight.to_local().numel() * parts != weight.numel()
    return count


def replicate(model: nn.Module, recorder: Recorder) -> nn.Module:
    """A copy on every rank, whose gradients are reduced in buckets (DistributedDataParallel).

    The fake group hands nothing back that C++ could wait for, so the all-reduce is issued by
    a hook, as it would be issued without one.
    """
    with recorder.making("communication buffer"):
        wrapped = DistributedDataParallel(model, init_sync=False)
    # It reads annotations, and takes them only where they are no text.
    wrapped.register_comm_hook(None, lambda _, bucket: _all_reduce(bucket))
    return wrapped


def _all_reduce(bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer()
    distributed.all_reduce(buffer)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(buffer)
    return done
