"""Feed-forward blocks: dense, and the experts and shared expert of a mixture."""

from __future__ import annotations

from tonnage.algebra import Number
from tonnage.arch import MLP
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting


def mlp(
    setting: Setting, spec: MLP, normed: Tensor, name: str = "mlp", module: str = "mlp"
) -> tuple[Operations, Tensor]:
    """A dense feed-forward block, tensor-parallel.

    Args:
        setting: the run.
        spec: widths and activation.
        normed: ``[shard_tokens, hidden]``.
        name: prefix of its operations and tensors.
        module: name under which recomputation may pick the whole block.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    entry, full = gather(setting, normed, hidden, modules=(module,))
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    body, partial = feed_forward(setting, spec, rows, name=name, module=module)
    leave, branch = scatter(setting, partial, hidden)
    return (*entry, *body, *leave), branch


def feed_forward(
    setting: Setting, spec: MLP, rows: Rows, *, name: str, module: str, width: Number | None = None
) -> tuple[Operations, Tensor]:
    """Up, activation, down, on whatever rows and weights the caller names.

    Args:
        setting: the run.
        spec: widths and activation.
        rows: what it reads, and who shares it.
        name: prefix of its operations and tensors.
        module: name under which recomputation may pick the whole block.
        width: width of what it reads and writes; None: the hidden size.
    """
    modules = (module,)
    hidden = setting.architecture.hidden if width is None else width
    ups: list[Operation] = []
    wide: list[Tensor] = []
    for part in ("gate", "up") if spec.gated else ("up",):
        layer = Linear(
            name=f"{name}.{part}",
            width_in=hidden,
            width_out=spec.intermediate,
            split="column",
            bias=spec.bias,
            target=f"{part}_proj",
            modules=modules,
        )
        done, tensor = linear(setting, layer, rows)
        ups.extend(done)
        wide.append(tensor)
    activated = wide[0].cast(f"{name}.activated", setting.format)
    activation = Operation(
        name=f"{name}.activation",
        kind="elementwise",
        inputs=tuple(wide),
        outputs=(activated,),
        saves=(*wide, *_kept_by_activation(setting, spec, name, wide[0])),
        modules=(*modules, "activation"),
    )
    down = Linear(
        name=f"{name}.down",
        width_in=spec.intermediate,
        width_out=hidden,
        split="row",
        bias=spec.bias,
        target="down_proj",
        modules=modules,
    )
    after = Rows(
        read=activated,
        kept=activated,
        tokens=rows.tokens,
        degree=rows.degree,
        copies=rows.copies,
        group=rows.group,
    )
    downs, output = linear(setting, down, after)
    return (*ups, activation, *downs), output


def _kept_by_activation(setting: Setting, spec: MLP, name: str, gate: Tensor) -> tuple[Tensor, ...]:
    """An activation and product written apart keep the activation's output for the product."""
    if spec.gated and setting.runtime.activation == "eager":
        return (gate.cast(f"{name}.gate_activated", setting.format),)
    return ()
