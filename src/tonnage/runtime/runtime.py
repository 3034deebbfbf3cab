"""What a software stack does that a plan does not say.

A habit is a number or one of a few named rules. The rule itself is a function in the
room of its physics, named for what it does; outside this package nothing asks which
stack it is.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tonnage.errors import InputError

Axis: TypeAlias = Literal["tp", "sp", "pp", "vpp", "cp", "ep", "etp"]
LossRule: TypeAlias = Literal[
    "eager",
    "eager-held",
    "eager-narrow",
    "eager-narrow-held",
    "upcast-in-place",
    "upcast-in-place-held",
    "narrow-in-place",
    "narrow-in-place-held",
    "upcast-in-chunks",
    "vocab-parallel",
    "vocab-parallel-fused",
    "vocab-parallel-two-copies",
    "in-place",
    "compiled",
    "chunked",
    "chunked-compiled",
    "linear",
]
SplitRule: TypeAlias = Literal["even", "by-cost"]
ShardingRule: TypeAlias = Literal[
    "distributed-optimizer", "fully-sharded", "flat-units", "partitioned"
]

CpComm: TypeAlias = Literal["p2p", "a2a", "allgather"]
Offload: TypeAlias = Literal["offload_parameters", "offload_optimizer", "offload_activations"]
OFFLOADS: Final[tuple[Offload, ...]] = typing.get_args(Offload)
"""The fields of a plan that say what lies in host memory."""


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
        schedules: the pipeline schedules that it has. Another is weighed with its habits all the
            same, and the answer says so.
        quantized_bases: whether it can put adapters on a base in 4 or 8 bits.
        fused_loss: the fused way to the same loss that it offers beside its own
            (``--cross-entropy-loss-fusion``, Liger); None: none.
        offloads: what it can hold in host memory, by the field of a plan, as far as that is
            modelled; a search offers these.
        exchanges: how its context-parallel ranks can share keys and values; empty: in the one
            way of ``cp_comm``.
        trains_predictors: whether it has multi-token prediction (`Plan.mtp`).
        narrow_activation: whether it can keep what SwiGLU reads in FP8
            (`Plan.activation_func_fp8_input_store`).
        measured: whether its memory is held to measurements; else a range is given.
        norm: ``fused`` norms save their input and statistics; ``eager`` ones (a norm written
            in Python) save an fp32 copy of the input, the statistics and the normalised value.
        norm_in_linear: the norm before a linear layer is part of it (Transformer Engine), and
            recomputing norms leaves it alone.
        norm_statistics: whether the statistics are counted (the 2022 paper neglects them).
        layernorm_statistics: format of a LayerNorm's mean and deviation: ``fp32`` (CUDA kernels)
            or that of its ``input`` (PyTorch's CPU kernel).
        activation: a ``fused`` gated activation saves its input only; ``eager`` also its output
            before the product.
        activation_checkpoint: what an activation that is recomputed keeps where its input is to be
            kept in FP8: the ``whole`` input all the same, which the checkpoint around it holds
            (Megatron), or what is ``stored`` (arXiv 2412.19437, section 3.3.3).
        attention_output: what attention writes is kept ``whole`` for its own backward pass, with a
            narrow copy for the product behind it, or once for both, in ``e5m6``
            (arXiv 2412.19437, section 3.3.3).
        qkv: ``fused``: one projection, whose storage lives as long as any of q, k and v;
            ``separate``: three.
        gate_up: ``fused``: gate and up are views of one product; ``separate``: two.
        rotary: turned queries and keys are new tensors (``out-of-place``), or keys and values
            are ``packed`` first: see `tonnage.ledger.rotary`.
        embedding_mask: rows of other ranks' tokens are zeroed ``in-place`` or in a ``copy``.
        softmax: unfused attention keeps probabilities in ``compute`` format, or also in ``fp32``.
        attention_layout: ``bshd``, or Megatron's ``sbhd``, from which FlashAttention-2 keeps a
            transposed copy of its output beside the one that is handed on.
        attention_statistics: fp32 numbers that a flash kernel keeps for each query and head: its
            log-sum-exp; 16 on Ascend (maximum and sum, in eight lanes each).
        cp_comm: how context-parallel ranks share keys and values: see
            `tonnage.ledger.context_parallel`.
        ring_keys: what goes around a ring is each rank's ``own`` keys and values, or a tensor
            that both are ``joined`` in (Transformer Engine).
        autocast: torch.autocast casts fp32 weights and inputs per linear layer and keeps the
            copies for backward; else a sharding engine hands out weights already cast.
        repeat_kv: keys and values are repeated to the query heads before a flash kernel too.
        adapter_format: adapters are stored in the ``weights``' format, or in ``fp32`` (PEFT).
        adapter_kernel: adapters run as ``modules`` with a dropout mask each (PEFT), or ``fused``
            with the product beside them (Unsloth): the input is kept once, and dropped copies.
        adapter_sharding: adapters are sharded with the base, or ``replicated``.
        loss_frame: the loss is computed inside the model's forward pass, whose frame still refers
            to the hidden states.
        ties_embeddings: whether tied embeddings are one tensor; else two (LitGPT).
        quantizes_head: a quantised base takes the head with it (LitGPT).
        shared_tensors: rotary tables, masks and positions are made once a micro-batch and kept
            by the layers that read them: see `tonnage.ledger.shared`.
        recompute_ends: full recomputation runs the ``whole`` layer, or ends ``early``, with the
            last tensor that backward needs (torch.utils.checkpoint without reentry).
        rebuilt_output: the output of a layer that is rebuilt lives until its backward is done
            (torch.utils.checkpoint with reentry).
        routing: a mixture of experts keeps a token-to-expert ``map`` (Megatron), or ``index``
            tensors and the experts' outputs (Hugging Face).
        experts: experts run ``grouped``, or in a ``loop``, one after another (transformers to 4).
        values: a layer's values are a tensor of their ``own``, or a ``view`` of the fused
            projection to queries, keys and values, which then lives as long (LitGPT).
        adapter_scatter: adapters on some of queries, keys and values only are copied into place
            by index, which keeps their product (LitGPT).
        quantized_input: what a product with a quantised weight keeps of its input: nothing
            (``free``; bitsandbytes from 0.43), or a copy for each layer, ``narrow`` in the format
            of the products or ``wide`` in fp32 (LitGPT with older ones; deduced from measurements).
        pipeline_whole: with pipeline stages parameters and gradients stay whole from the first
            micro-batch to the last (torchtitan).
        pipeline_buffers: receive buffers between pipeline stages: a ``pair`` that is used again, or
            for ``each`` micro-batch of a step (torch.distributed.pipelining).
        loss: how the cross-entropy is computed: see `tonnage.ledger.head`.
        vocab_multiple: the vocabulary is padded to this times ``tp``.
        sharding: how ZeRO is done: see `tonnage.memory.buffers`.
        root_unit: the embedding, the last norm and the head are one unit, which stays whole from
            the first forward to the end of backward (the root of FSDP).
        accumulates_whole: micro-batches before the last leave whole gradients on every rank
            (``no_sync``).
        live_parameters: elements that the engine lets be whole at once (DeepSpeed stage 3).
        bucket_copy: replicated gradients are copied into buckets to be reduced (DDP).
        bucket_bytes: a reduction buffer of fixed size (DeepSpeed); 0: none.
        reduce_bytes: replicated gradients that are reduced at once; 0: a layer's.
        bucket_tensors: a bucket is reduced as ``one`` tensor, or ``each`` parameter's own in a
            collective of its own, issued in one call.
        gathered_slices: after a ZeRO-1 gather the host copies each rank's slice of each parameter
            where it belongs.
        gradient_buffer: gradients are ``persistent`` (one buffer, always there) or appear
            ``in-backward`` and go after the step.
        step_copies: copies of the gathered weights at the end of a ZeRO-1 step.
        optimizer_swap: states that lie in host memory come to the device for the step and go back
            (MindSpeed's swap-optimizer); else the host's processors step them there.
        step_lists: lists of temporaries that a foreach step makes at once: the square roots, and
            in torch 2.0 also their sum with epsilon.
        optimizer_step: ``foreach`` makes a temporary as large as the parameters it updates,
            ``fused`` none.
        regathers: the input of a sequence-parallel product is kept as a shard and gathered again
            in backward (Megatron), or kept whole (DTensor).
        gather_buffers: persistent full-width buffers that layers gather sequence shards into.
        head_gather_buffer: the same for the head alone.
        score_buffer: a persistent buffer for the scores of unfused attention.
        attention_mask: a boolean mask of the whole square lives with each batch, unless the
            sequence is split (at 131,072 tokens it would be 16 GiB; deduced from measurements).
        placeholder_gradients: with gradient-accumulation fusion the weight gradient goes straight
            into the fp32 buffer, and autograd gets a cached placeholder for each distinct shape.
        weight_transposes: a narrow recipe keeps each weight's transpose too, and does not make it
            anew in each backward pass (``disable_parameter_transpose_cache``).
        matmul_workspaces: PyTorch's workspaces for cuBLAS: one for each thread that has
            launched a product, forward and backward.
        matmul_workspace: their size in bytes; 0: cuBLAS's default on the device.
        linear_workspaces: Transformer Engine's own, of 32 MiB on sm90 and later, else 4 MiB.
        pipeline_host: between stages the host is ``free`` to run ahead, or ``waits``: before the
            last stage, until that one's host has issued the gradient; elsewhere, until an
            activation has left.
        reserved: what the allocator holds is a ``share`` over the tensors, or found by a
            ``replay`` of the allocations where that knows the rest of the habits
            (`tonnage.memory.reserved`).
        pipeline_split: stages hold equally many layers (``even``) or cost the same
            (``by-cost``): see `tonnage.plan.layout.stages`.
        overlap_grad_reduce: gradient reduction runs under the last micro-batch's backward.
        overlap_param_gather: parameter gathers run under the forward pass.
        tp_async: backward, products gather their inputs again and sum their inputs' gradients
            beside the products that do not need them.
        tp_overlap: share of tensor-parallel communication hidden behind compute, 0 to 1.
        ep_overlap: share of the experts' exchange hidden behind another micro-batch, 0 to 1.
        overlap_sends: interleaved chunks send while the next one computes.
        permute: tokens are sorted for their experts by ``kernels`` of their own, or
            ``in-dispatch`` (DeepEP, HybridEP).
        dispatch_format: tokens travel to the experts, and gradients back to them, in the
            ``activations``' format, or in the narrow one of the ``recipe``; what experts send, in
            either pass, in the activations' always (arXiv 2412.19437, section 3.3.3).
        ring_overlap: a context-parallel ring runs under the attention of the part before.
        sharded_reduce: gradients of ZeRO-1 are reduce-scattered, bucket by bucket, or
            all-reduced whole once backward is over (nanotron).
        scatter_gather: without sequence parallelism, a tensor-parallel rank sends its share of
            what goes to the next stage, where it is gathered (arXiv 2104.04473, section 4.1).
        kernels: norms, activations and sums are ``fused`` kernels, or ``eager`` ones of
            PyTorch, several for each (torch.compile fuses them too).
        flash_attention: generation of the flash kernel it brings; 0: the device's usual one.
        host: how layers are issued: ``eager``, operator by operator, or as a ``graph``.
        verified_collectives: each collective is first checked over the hosts, rank by rank, and
            so is the barrier that ends a step (TORCH_DISTRIBUTED_DEBUG=DETAIL).
        source: where the habits come from.
    """

    name: str
    summary: str
    axes: tuple[Axis, ...]
    zero_stages: tuple[int, ...]
    zero: int
    precision: str
    source: str
    schedules: tuple[str, ...] = ("1f1b",)
    quantized_bases: bool = False
    fused_loss: LossRule | None = None
    offloads: tuple[Offload, ...] = ()
    exchanges: tuple[CpComm, ...] = ()
    trains_predictors: bool = False
    narrow_activation: bool = False
    measured: bool = True
    norm: Literal["fused", "eager"] = "fused"
    norm_in_linear: bool = False
    norm_statistics: bool = True
    layernorm_statistics: Literal["fp32", "input"] = "fp32"
    activation: Literal["fused", "eager"] = "fused"
    activation_checkpoint: Literal["whole", "stored"] = "whole"
    attention_output: Literal["whole", "e5m6"] = "whole"
    qkv: Literal["fused", "separate"] = "separate"
    gate_up: Literal["fused", "separate"] = "separate"
    rotary: Literal["out-of-place", "packed"] = "out-of-place"
    embedding_mask: Literal["in-place", "copy"] = "in-place"
    softmax: Literal["compute", "fp32"] = "compute"
    attention_layout: Literal["bshd", "sbhd"] = "bshd"
    attention_statistics: int = 1
    cp_comm: CpComm = "p2p"
    ring_keys: Literal["own", "joined"] = "own"
    autocast: bool = False
    repeat_kv: bool = False
    adapter_format: Literal["weights", "fp32"] = "weights"
    adapter_kernel: Literal["modules", "fused"] = "modules"
    adapter_sharding: Literal["with-base", "replicated"] = "with-base"
    loss_frame: bool = False
    ties_embeddings: bool = True
    quantizes_head: bool = False
    shared_tensors: bool = False
    recompute_ends: Literal["whole", "early"] = "whole"
    rebuilt_output: bool = False
    routing: Literal["map", "index"] = "index"
    experts: Literal["grouped", "loop"] = "grouped"
    values: Literal["own", "view"] = "own"
    adapter_scatter: bool = False
    quantized_input: Literal["free", "narrow", "wide"] = "free"
    pipeline_whole: bool = False
    pipeline_buffers: Literal["pair", "each"] = "pair"
    loss: LossRule = "eager"
    vocab_multiple: int = 1
    sharding: ShardingRule = "fully-sharded"
    root_unit: bool = False
    accumulates_whole: bool = False
    live_parameters: int = 1_000_000_000
    bucket_copy: bool = False
    bucket_bytes: int = 0
    reduce_bytes: int = 0
    bucket_tensors: Literal["one", "each"] = "one"
    gathered_slices: bool = False
    gradient_buffer: Literal["persistent", "in-backward"] = "in-backward"
    step_copies: int = 0
    optimizer_step: Literal["foreach", "fused"] = "foreach"
    optimizer_swap: bool = False
    step_lists: int = 1
    regathers: bool = True
    gather_buffers: int = 0
    head_gather_buffer: bool = False
    score_buffer: bool = False
    attention_mask: bool = False
    placeholder_gradients: bool = False
    weight_transposes: bool = True
    matmul_workspaces: int = 2
    matmul_workspace: int = 0
    linear_workspaces: int = 0
    pipeline_host: Literal["free", "waits"] = "free"
    reserved: Literal["share", "replay"] = "share"
    pipeline_split: SplitRule = "even"
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    tp_async: bool = False
    tp_overlap: float = 0.0
    ep_overlap: float = 0.0
    overlap_sends: bool = False
    permute: Literal["kernels", "in-dispatch"] = "kernels"
    dispatch_format: Literal["activations", "recipe"] = "activations"
    ring_overlap: bool = True
    sharded_reduce: Literal["reduce-scatter", "all-reduce"] = "reduce-scatter"
    scatter_gather: bool = False
    kernels: Literal["fused", "eager"] = "fused"
    flash_attention: int = 0
    host: Literal["eager", "graph"] = "eager"
    verified_collectives: bool = False


_FACTS = frozenset(
    {
        *("name", "summary", "axes", "zero_stages", "zero", "precision", "source"),
        *("quantized_bases", "schedules", "fused_loss", "trains_predictors", "measured"),
        "narrow_activation",
        *("offloads", "exchanges"),
    }
)
"""What a stack is, or what a plan has a field of its own for."""


def habit_names() -> tuple[str, ...]:
    """The habits that a plan may override."""
    return tuple(f.name for f in dataclasses.fields(Runtime) if f.name not in _FACTS)


@functools.cache
def _hints() -> dict[str, Any]:
    """The types of the habits."""
    return typing.get_type_hints(Runtime)


def with_habits(runtime: Runtime, habits: Iterable[tuple[str, str]]) -> Runtime:
    """The runtime with some habits overridden, each given as text.

    Raises:
        InputError: a habit is unknown, or its value is not one that it can take.
    """
    changes: dict[str, object] = {}
    for name, text in habits:
        if name not in habit_names():
            raise InputError(
                field="habit",
                value=name,
                problem="is not a habit",
                accepted=", ".join(habit_names()),
            )
        changes[name] = _parse_habit(name, text, _hints()[name])
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
        least = 1 if name == "vocab_multiple" else 0
        if text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= least:
            return int(text)
        accepted = f"a whole number, {least} or more"
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
