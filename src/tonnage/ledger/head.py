"""The end of the last stage: final norm, output projection, logits and loss."""

from __future__ import annotations

from tonnage.algebra import Number, exact_div, flops_of, where
from tonnage.arch import LAYERNORM
from tonnage.ledger.adapter import Adapter, adapted, adapter
from tonnage.ledger.elementwise import norm
from tonnage.ledger.embedding import saved_module, token_table
from tonnage.ledger.hyper_connections import collapse_head
from tonnage.ledger.layer import layer_input
from tonnage.ledger.linear import Linear, Rows, dequantised, gather, linear
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def head(setting: Setting, *, owns_tied_table: bool = False) -> Operations:
    """From the last layer's output to the logits.

    Args:
        setting: the run.
        owns_tied_table: tied embeddings have a second copy here (the embedding is on
            another pipeline stage).
    """
    architecture = setting.architecture
    read = layer_input(setting)
    operations: list[Operation] = []
    if architecture.streams:
        done, read = collapse_head(setting, read)
        operations.extend(done)
    if architecture.final_norm is not None:
        done, read = norm(
            setting, architecture.final_norm, name="head.norm", read=read, width=architecture.hidden
        )
        operations.extend(done)
    if architecture.head_transform:
        done, read = _transform(setting, read)
        operations.extend(done)
    width = architecture.embedding_width or architecture.hidden
    if architecture.embedding_width is not None:
        narrow = Linear(
            name="head.project", width_in=architecture.hidden, width_out=width, narrow=False
        )
        rows = Rows(read=read, kept=read, tokens=setting.shard_tokens, degree=1)
        done, read = linear(setting, narrow, rows)
        operations.extend(done)
    entry, full = gather(setting, read, width)
    kept = read if setting.runtime.regathers else full
    product = _product(setting, kept, full, width, owns_tied_table)
    beside: Operations = ()
    if adapted(setting, "lm_head"):
        beside = _adapter(setting, kept, full, width)
    return (*operations, *entry, product, *beside, *_softcap(setting))


def _adapter(setting: Setting, kept: Tensor, full: Tensor, width: Number) -> Operations:
    frozen = Weight(name="head", shape=(width, exact_div(setting.vocab, setting.tp)), trains=False)
    spec = Adapter(
        name="head", read=full, kept=kept, tokens=setting.tokens, frozen=frozen, entry="head"
    )
    return adapter(setting, spec, logits(setting))[0]


def _transform(setting: Setting, read: Tensor) -> tuple[Operations, Tensor]:
    """A dense layer, an activation and a LayerNorm, each rank on its own tokens (BERT)."""
    hidden = setting.architecture.hidden
    dense = Linear(
        name="head.transform", width_in=hidden, width_out=hidden, bias=True, narrow=False
    )
    rows = Rows(read=read, kept=read, tokens=setting.shard_tokens, degree=1)
    done, wide = linear(setting, dense, rows)
    active = wide.cast("head.activated", setting.format)
    activation = Operation(
        name="head.activation",
        kind="elementwise",
        inputs=(wide,),
        outputs=(active,),
        saves=(wide,),
    )
    scaled, output = norm(setting, LAYERNORM, name="head.transform_norm", read=active, width=hidden)
    return (*done, activation, *scaled), output


def _product(
    setting: Setting, kept: Tensor, full: Tensor, width: Number, owns_tied_table: bool
) -> Operation:
    """The output projection, ``[tokens, width] @ [width, vocab / tp]``; never quantised."""
    architecture = setting.architecture
    copies = saved_module(setting, "head")
    trains = setting.trains_base or bool(copies)
    rows = exact_div(setting.vocab, setting.tp)
    weights: list[Weight] = [*copies]
    tied = architecture.tied_embeddings and setting.runtime.ties_embeddings
    table = token_table(setting, "head")
    if not tied or owns_tied_table:
        weights.append(table)
    if architecture.head_bias:
        weights.append(Weight(name="head.bias", shape=(rows,), trains=setting.trains_base))
    flops = 2 * flops_of(setting.tokens) * width * rows
    return Operation(
        name="head",
        kind="matmul",
        inputs=(full,),
        outputs=(logits(setting),),
        saves=_kept_operands(setting, kept, width * rows) if trains else (),
        frames=(full,) if setting.runtime.loss_frame else (),
        scratch=dequantised(setting, table),
        scratch_backward=dequantised(setting, table),
        weights=tuple(weights),
        flops=flops,
        flops_backward=2 * flops if trains else flops,
    )


def _kept_operands(setting: Setting, kept: Tensor, numel: Number) -> tuple[Tensor, ...]:
    """Input and, where autocast makes one, a copy of each operand."""
    if not setting.casts:
        return (kept,)
    narrow = setting.precision.compute
    copy = Tensor(name="head.weight_cast", elements=numel, format=narrow)
    return (kept.cast("head.input_cast", narrow), copy)


def _softcap(setting: Setting) -> Operations:
    """Logits through ``cap · tanh(logits / cap)``: the tanh is kept."""
    if not setting.architecture.logits_softcap:
        return ()
    raw = logits(setting)
    bounded = raw.cast("head.softcap_tanh", raw.format)
    return (
        Operation(
            name="head.softcap",
            kind="elementwise",
            inputs=(raw,),
            outputs=(bounded,),
            saves=(bounded,),
        ),
    )


def logits(setting: Setting) -> Tensor:
    """The logits of one micro-batch on one rank, ``[tokens, vocab / tp]``."""
    rows = exact_div(setting.vocab, setting.tp)
    return Tensor(name="logits", elements=setting.tokens * rows, format=setting.format)


def loss_keeps(setting: Setting) -> tuple[Tensor, ...]:
    """What an unfused cross-entropy keeps between forward and backward.

    The log-softmax in fp32, the labels in int64, and two scalars: the loss, and the number of
    labels that it is a mean over. Labels are padded by one and shifted; of several sequences
    that makes a copy, of one a view, which keeps the padding.
    """
    if setting.runtime.loss != "eager":
        return ()
    labels = setting.tokens + where(setting.mbs > 1, 0, 1)
    return (
        logits(setting).cast("loss.log_softmax", "fp32"),
        Tensor(name="loss.labels", elements=2 * labels, format="fp32"),
        Tensor(name="loss.scalars", elements=2, format="fp32"),
    )
