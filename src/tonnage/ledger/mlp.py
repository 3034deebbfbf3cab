"""Feed-forward blocks: dense, and the experts and shared expert of a mixture."""

from __future__ import annotations

import dataclasses

from tonnage.algebra import Number
from tonnage.arch import MLP
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting

PYTHON_STEPS = {"gelu_new": 3, "quick_gelu": 1}
"""Tensors that activations written in Python keep beside input and output (transformers).

``gelu_new`` keeps x/2, the tanh and 1 + tanh; ``quick_gelu`` the sigmoid.
"""

STORED = "fp8_e4m3"
"""The format of `Plan.activation_func_fp8_input_store`."""


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
    of_expert = (*modules, "moe_act") if rows.group == "expert" else modules
    activation = _activation(setting, spec, name, tuple(wide), activated, of_expert)
    if rows.group == "expert" and not spec.gated and setting.runtime.routing == "map":
        scale, activated = _scaled(name, activated, of_expert)
        activation = (*activation, scale)
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
    return (*ups, *activation, *downs), output


def _scaled(name: str, activated: Tensor, modules: tuple[str, ...]) -> tuple[Operation, Tensor]:
    """A token's routing probability applied inside its expert, after a plain activation.

    A gated activation has it in its fused kernel; a plain one is scaled by a kernel of its
    own, which keeps what it scales (Megatron-Core's experts).
    """
    scaled = activated.cast(f"{name}.scaled", activated.format)
    operation = Operation(
        name=f"{name}.scale",
        kind="elementwise",
        inputs=(activated,),
        outputs=(scaled,),
        saves=(activated,),
        modules=(*modules, "activation"),
    )
    return operation, scaled


def _activation(
    setting: Setting,
    spec: MLP,
    name: str,
    wide: tuple[Tensor, ...],
    activated: Tensor,
    modules: tuple[str, ...],
) -> Operations:
    """The activation of the gate and its product with the rest, in one kernel or in two.

    Two kernels keep the activation's output for the product's gradient. An activation that is
    itself written in Python keeps its intermediates. Kept in FP8, its inputs are widened
    again in backward.
    """
    modules = (*modules, "activation")
    eager = setting.runtime.activation == "eager"
    steps = PYTHON_STEPS.get(spec.activation, 0) if eager else 0
    inside = tuple(wide[0].cast(f"{name}.step{step}", setting.format) for step in range(steps))

    def kernel(part: str, reads: tuple[Tensor, ...], writes: Tensor, *more: Tensor) -> Operation:
        return Operation(
            name=f"{name}.{part}",
            kind="elementwise",
            inputs=reads,
            outputs=(writes,),
            saves=(*reads, *more),
            modules=modules,
        )

    if setting.plan.activation_func_fp8_input_store:
        return (_narrowly(setting, kernel("activation", wide, activated)),)
    if not (spec.gated and eager):
        return (kernel("activation", wide, activated, *inside),)
    gate = wide[0].cast(f"{name}.gate_activated", setting.format)
    product = kernel("product", (gate, *wide[1:]), activated)
    return kernel("activation", wide[:1], gate, *inside), product


def _narrowly(setting: Setting, operation: Operation) -> Operation:
    """An activation that keeps its inputs in FP8 and widens them for its backward kernel.

    A cast without scales, whatever the recipe (Megatron-Core's ``SwiGLUFunction``).
    """
    stored = tuple(t.copy(f"{t.name}.stored", STORED) for t in operation.inputs)
    checkpointed = setting.runtime.activation_checkpoint == "stored"
    return dataclasses.replace(
        operation,
        saves=stored,
        reentry=stored if checkpointed else (),
        scratch_backward=tuple(t.cast(f"{t.name}.widened", t.format) for t in operation.inputs),
    )
