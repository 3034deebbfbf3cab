"""Feed-forward blocks: dense, and the experts and shared expert of a mixture."""

from __future__ import annotations

from tonnage.algebra import Number
from tonnage.arch import MLP
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting

PYTHON_STEPS = {"gelu_new": 3, "quick_gelu": 1}
"""Tensors that activations written in Python keep beside input and output (transformers).

``gelu_new`` keeps x/2, the tanh and 1 + tanh; ``quick_gelu`` the sigmoid.
"""


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
    """What unfused activations keep beside their input and the block's last product's.

    A product written apart keeps the activation's output. An activation that is itself
    written in Python keeps its intermediates.
    """
    if setting.runtime.activation != "eager":
        return ()
    inside = [f"step{step}" for step in range(PYTHON_STEPS.get(spec.activation, 0))]
    names = [*inside, "gate_activated"] if spec.gated else inside
    return tuple(gate.cast(f"{name}.{each}", setting.format) for each in names)
