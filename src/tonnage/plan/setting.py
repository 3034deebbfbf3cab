"""A plan with every blank filled: what the ledger reads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tonnage.algebra import Number, ceil_div, exact_div, is_symbol, round_up
from tonnage.arch import Architecture
from tonnage.plan.optimizer import Optimizer
from tonnage.plan.plan import Plan
from tonnage.plan.precision import Precision
from tonnage.plan.schedule import per_chunk
from tonnage.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One architecture under one plan, resolved.

    The numeric fields may be ints, int64 columns of plans, or sympy symbols: make a column
    with ``setting.columns(tp=array, dp=array)``. All else is a single value.

    Attributes:
        architecture: what is trained.
        plan: the categorical choices (recompute, attention kernel, adapters, experts).
        runtime: the habits, with the plan's overrides applied.
        precision: the number format of each role, with the plan's overrides applied.
        optimizer: the optimizer.
        sp: sequence parallelism.
        zero: ZeRO stage.
        tp: tensor-parallel size, t.
        cp: context-parallel size.
        ep: expert-parallel size.
        etp: tensor-parallel size inside an expert.
        dp: data-parallel size, without cp.
        shard: ranks that dense parameters are sharded over under ZeRO.
        mbs: sequences in a micro-batch, b.
        grad_acc: micro-batches in a step on one rank, m.
        seq: tokens in a sequence, s.
        device: what the device's kernels are compiled for (``sm90``), which decides the size
            of library workspaces.
        causal: attention's lower half is counted, and not the whole square.
    """

    architecture: Architecture
    plan: Plan
    runtime: Runtime
    precision: Precision
    optimizer: Optimizer
    sp: bool
    zero: int
    tp: Number
    cp: Number
    ep: Number
    etp: Number
    dp: Number
    shard: Number
    mbs: Number
    grad_acc: Number
    seq: Number
    device: str = ""
    causal: bool = True

    def columns(self, **numeric: Number) -> Setting:
        """The same run with numeric fields replaced by columns or symbols."""
        changes: dict[str, Any] = dict(numeric)
        return dataclasses.replace(self, **changes)

    @property
    def turns(self) -> Number:
        """Micro-batches of a step through each chunk of a stage: all, or half under DualPipe."""
        return per_chunk(self.plan, self.grad_acc)

    @property
    def tokens(self) -> Number:
        """Tokens of one micro-batch on one rank, outside sequence-parallel regions: T."""
        return exact_div(self.mbs * self.seq, self.cp)

    @property
    def shard_tokens(self) -> Number:
        """Tokens of one micro-batch on one rank where the sequence is sharded over tp: Ts."""
        return exact_div(self.tokens, self.tp) if self.sp else self.tokens

    @property
    def format(self) -> str:
        """Number format of the activations inside a layer."""
        return self.precision.activations

    @property
    def stream(self) -> str:
        """Number format of the residual stream and of the norms' outputs.

        Under torch.autocast with fp32 weights both stay fp32: only linear layers and
        attention are cast.
        """
        return self.precision.weights if self.casts else self.precision.activations

    @property
    def casts(self) -> bool:
        """Whether torch.autocast casts weights and inputs, layer by layer."""
        apart = self.precision.weights != self.precision.compute
        return self.runtime.autocast and apart and not self.gathers

    @property
    def gathers(self) -> bool:
        """Whether a sharding engine gathers parameters, and hands them out in compute format."""
        whole = self.runtime.sharding in ("fully-sharded", "flat-units")
        return self.zero == 3 or (self.zero == 2 and whole)

    @property
    def trains_base(self) -> bool:
        """Whether the model's own weights train, and not only adapters."""
        return self.plan.lora_rank is None

    @property
    def adapter_format(self) -> str:
        """Number format that adapters and their states are stored in."""
        apart = self.gathers and self.runtime.adapter_sharding == "replicated"
        wide = self.runtime.adapter_format == "fp32" and not apart
        return "fp32" if wide else self.precision.weights

    @property
    def adapter_compute(self) -> str:
        """Number format that adapters are multiplied in."""
        return self.precision.compute if self.runtime.autocast else self.adapter_format

    @property
    def gradient_format(self) -> str:
        """Number format of a gradient as backward makes it, before an engine reduces it."""
        return self.precision.compute if self.gathers else self.precision.gradients

    @property
    def replicas(self) -> Number:
        """Ranks that hold the same dense weights: dp times cp."""
        return self.dp * self.cp

    @property
    def expert_replicas(self) -> Number:
        """Ranks that hold the same expert weights: edp = dp·cp·tp / (ep·etp)."""
        return exact_div(self.dp * self.cp * self.tp, self.ep * self.etp)

    @property
    def expert_shard(self) -> Number:
        """Ranks that expert parameters are sharded over under ZeRO.

        With HSDP the copies of the dense shards are also copies of the experts': as many
        instances of each (Megatron's distributed-optimizer instances).
        """
        if self.plan.hsdp_shard is None:
            return self.expert_replicas
        instances = ceil_div(self.replicas, self.shard)
        return ceil_div(self.expert_replicas, instances)

    @property
    def vocab(self) -> Number:
        """The vocabulary as the runtime pads it (a symbol stands for the padded figure)."""
        vocab = self.architecture.vocab
        return vocab if is_symbol(vocab) else round_up(vocab, self.runtime.vocab_multiple * self.tp)
