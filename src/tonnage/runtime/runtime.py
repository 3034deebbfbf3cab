"""What a software stack does that a plan does not say.

A habit is a number or one of a few named rules. The rule itself is a function in the
room of its physics, named for what it does; outside this package nothing asks which
stack it is.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.errors import InputError

Axis: TypeAlias = Literal["tp", "sp", "pp", "vpp", "cp", "ep", "etp"]
LossRule: TypeAlias = Literal[
    "eager",
    "vocab-parallel",
    "vocab-parallel-fused",
    "vocab-parallel-two-copies",
    "in-place",
    "compiled",
    "chunked",
    "linear",
]
SplitRule: TypeAlias = Literal["even", "by-cost"]
ShardingRule: TypeAlias = Literal["distributed-optimizer", "fully-sharded", "partitioned"]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The habits of one stack. What is not a fact about the stack can be overridden by a plan.

    Attributes:
        name: what ``--runtime`` calls it.
        summary: one line for a person.
        axes: the parallel axes that it can use beside data parallelism.
        zero_stages: the ZeRO stages that it has.
        zero: the stage it uses when none is asked for.
        precision: the recipe it uses when none is asked for.
        norm: ``fused`` norms save their input and statistics; ``eager`` ones (a norm written
            in Python) save an fp32 copy of the input, the statistics and the normalised value.
        norm_in_linear: the norm before a linear layer is part of it (Transformer Engine), and
            recomputing norms leaves it alone.
        norm_statistics: whether the statistics are counted (the 2022 paper neglects them).
        layernorm_statistics: format of a LayerNorm's mean and deviation: ``fp32`` (CUDA kernels)
            or that of its ``input`` (PyTorch's CPU kernel).
        activation: a ``fused`` gated activation saves its input only; ``eager`` also its output
            before the product.
        qkv: ``fused``: one projection, whose storage lives as long as any of q, k and v;
            ``separate``: three.
        gate_up: ``fused``: gate and up are views of one product; ``separate``: two.
        rotary: turned queries and keys are new tensors (``out-of-place``), or keys and values
            are ``packed`` first: see `tonnage.ledger.rotary`.
        embedding_mask: rows of other ranks' tokens are zeroed ``in-place`` or in a ``copy``.
        softmax: unfused attention keeps probabilities in ``compute`` format, or also in ``fp32``.
        attention_layout: ``bshd``, or Megatron's ``sbhd``, from which FlashAttention-2 keeps a
            transposed copy of its output beside the one that is handed on.
        autocast: torch.autocast casts fp32 weights and inputs per linear layer and keeps the
            copies for backward; else a sharding engine hands out weights already cast.
        shared_tensors: rotary tables, masks and positions are made once a micro-batch and kept
            by the layers that read them: see `tonnage.ledger.shared`.
        recompute_ends: full recomputation runs the ``whole`` layer, or ends ``early``, with the
            last tensor that backward needs (torch.utils.checkpoint without reentry).
        routing: a mixture of experts keeps a token-to-expert ``map`` (Megatron), or ``index``
            tensors and the experts' outputs (Hugging Face).
        loss: how the cross-entropy is computed: see `tonnage.ledger.head`.
        vocab_multiple: the vocabulary is padded to this times ``tp``.
        sharding: how ZeRO is done: see `tonnage.memory.buffers`.
        bucket_copy: replicated gradients are copied into buckets to be reduced (DDP).
        bucket_bytes: a reduction buffer of fixed size (DeepSpeed); 0: none.
        gradient_buffer: gradients are ``persistent`` (one buffer, always there) or appear
            ``in-backward`` and go after the step.
        step_copies: copies of the gathered weights at the end of a ZeRO-1 step.
        optimizer_step: ``foreach`` makes a temporary as large as the parameters it updates,
            ``fused`` none.
        gather_buffers: persistent full-width buffers that layers gather sequence shards into.
        head_gather_buffer: the same for the head alone.
        score_buffer: a persistent buffer for the scores of unfused attention.
        attention_mask: a boolean mask of the whole square lives with each batch.
        placeholder_gradients: with gradient-accumulation fusion the weight gradient goes straight
            into the fp32 buffer, and autograd gets a cached placeholder for each distinct shape.
        matmul_workspaces: PyTorch's workspaces for cuBLAS: one for each thread that has
            launched a product, forward and backward.
        matmul_workspace: their size in bytes; 0: cuBLAS's default on the device.
        linear_workspaces: Transformer Engine's own, of 32 MiB on sm90 and later, else 4 MiB.
        blocking_collectives: the host waits for each collective to finish (a debugging switch
            of torch.distributed, some transports): ``no``, ``yes``, or ``pipelines-across-nodes``.
        pipeline_host: between stages the host is ``free`` to run ahead, or ``waits``: before the
            last stage, until that one's host has issued the gradient; elsewhere, until an
            activation has left.
        reserved: what the allocator holds is a ``share`` over the tensors, or found by a
            ``replay`` of the allocations (`tonnage.memory.replay`).
        pipeline_split: stages hold equally many layers (``even``) or cost the same
            (``by-cost``): see `tonnage.plan.layout.stages`.
        overlap_grad_reduce: gradient reduction runs under the last micro-batch's backward.
        overlap_param_gather: parameter gathers run under the forward pass.
        tp_overlap: share of tensor-parallel communication hidden behind compute, 0 to 1.
        source: where the habits come from.
    """

    name: str
    summary: str
    axes: tuple[Axis, ...]
    zero_stages: tuple[int, ...]
    zero: int
    precision: str
    source: str
    norm: Literal["fused", "eager"] = "fused"
    norm_in_linear: bool = False
    norm_statistics: bool = True
    layernorm_statistics: Literal["fp32", "input"] = "fp32"
    activation: Literal["fused", "eager"] = "fused"
    qkv: Literal["fused", "separate"] = "separate"
    gate_up: Literal["fused", "separate"] = "separate"
    rotary: Literal["out-of-place", "packed"] = "out-of-place"
    embedding_mask: Literal["in-place", "copy"] = "in-place"
    softmax: Literal["compute", "fp32"] = "compute"
    attention_layout: Literal["bshd", "sbhd"] = "bshd"
    autocast: bool = False
    shared_tensors: bool = False
    recompute_ends: Literal["whole", "early"] = "whole"
    routing: Literal["map", "index"] = "index"
    loss: LossRule = "eager"
    vocab_multiple: int = 1
    sharding: ShardingRule = "fully-sharded"
    bucket_copy: bool = False
    bucket_bytes: int = 0
    gradient_buffer: Literal["persistent", "in-backward"] = "in-backward"
    step_copies: int = 0
    optimizer_step: Literal["foreach", "fused"] = "foreach"
    gather_buffers: int = 0
    head_gather_buffer: bool = False
    score_buffer: bool = False
    attention_mask: bool = False
    placeholder_gradients: bool = False
    matmul_workspaces: int = 2
    matmul_workspace: int = 0
    linear_workspaces: int = 0
    blocking_collectives: Literal["no", "yes", "pipelines-across-nodes"] = "no"
    pipeline_host: Literal["free", "waits"] = "free"
    reserved: Literal["share", "replay"] = "share"
    pipeline_split: SplitRule = "even"
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    tp_overlap: float = 0.0


_FACTS = frozenset({"name", "summary", "axes", "zero_stages", "zero", "precision", "source"})
"""What a stack is, or what a plan has a field of its own for."""


def habit_names() -> tuple[str, ...]:
    """The habits that a plan may override."""
    return tuple(f.name for f in dataclasses.fields(Runtime) if f.name not in _FACTS)


def with_habits(runtime: Runtime, habits: Iterable[tuple[str, str]]) -> Runtime:
    """The runtime with some habits overridden, each given as text.

    Raises:
        InputError: a habit is unknown, or its value is not one that it can take.
    """
    hints = typing.get_type_hints(Runtime)
    changes: dict[str, object] = {}
    for name, text in habits:
        if name not in habit_names():
            raise InputError(
                field="habit",
                value=name,
                problem="is not a habit",
                accepted=", ".join(habit_names()),
            )
        changes[name] = _parse_habit(name, text, hints[name])
    return dataclasses.replace(runtime, **changes)  # type: ignore[arg-type]


def _parse_habit(name: str, text: str, hint: object) -> object:
    choices = typing.get_args(hint)
    if choices:
        if text in choices:
            return text
        accepted = ", ".join(map(str, choices))
    elif hint is bool:
        truth = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if text.lower() in truth:
            return truth[text.lower()]
        accepted = "true or false"
    elif hint is int:
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return int(text)
        accepted = "a whole number, 0 or more"
    elif hint is float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if 0.0 <= value <= 1.0:
            return value
        accepted = "a number from 0 to 1"
    else:
        return text
    raise InputError(
        field=f"habit {name}", value=text, problem="is not a value of this habit", accepted=accepted
    )
