"""Optimizers and the state that each keeps of a parameter.

Only facts stand here; the bytes of a state are arithmetic and live in
`tonnage.ledger.optimizer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.errors import InputError

StateRule: TypeAlias = Literal["elementwise", "factored", "blockwise8", "hidden_matrices", "rest"]
"""How large a state is.

* ``elementwise``: one number a parameter, in the moments' format.
* ``factored``: a row and a column sum of a matrix, a full copy of a vector (Adafactor).
* ``blockwise8``: one byte a parameter and an fp32 scale per 2,048 (8-bit Adam); tensors
  below 4,096 elements stay in fp32.
* ``hidden_matrices``: elementwise, but only for matrices inside layers (Muon's momentum).
* ``rest``: elementwise, for everything else (the AdamW that Muon leaves the rest to).
"""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer: its name, its states and where they are defined.

    Attributes:
        name: what ``--optimizer`` calls it.
        states: each state's name and size.
        source: where they are defined.
        paged: states of large tensors are managed memory, outside PyTorch's allocator.
    """

    name: str
    states: tuple[tuple[str, StateRule], ...]
    source: str
    paged: bool = False


_OPTIMIZERS = (
    Optimizer(name="sgd", states=(), source="torch.optim.SGD, momentum 0"),
    Optimizer(
        name="momentum",
        states=(("momentum_buffer", "elementwise"),),
        source="torch.optim.SGD, momentum > 0",
    ),
    Optimizer(name="adagrad", states=(("sum", "elementwise"),), source="torch.optim.Adagrad"),
    Optimizer(
        name="rmsprop",
        states=(("square_avg", "elementwise"),),
        source="torch.optim.RMSprop, momentum 0 and not centered",
    ),
    Optimizer(
        name="adam",
        states=(("exp_avg", "elementwise"), ("exp_avg_sq", "elementwise")),
        source="arXiv 1412.6980; torch.optim.Adam",
    ),
    Optimizer(
        name="adamw",
        states=(("exp_avg", "elementwise"), ("exp_avg_sq", "elementwise")),
        source="arXiv 1711.05101; torch.optim.AdamW",
    ),
    Optimizer(
        name="adafactor",
        states=(("row_and_column", "factored"),),
        source="arXiv 1804.04235, without first moment; torch.optim.Adafactor",
    ),
    Optimizer(name="lion", states=(("exp_avg", "elementwise"),), source="arXiv 2302.06675"),
    Optimizer(
        name="muon",
        states=(
            ("momentum_buffer", "hidden_matrices"),
            ("exp_avg", "rest"),
            ("exp_avg_sq", "rest"),
        ),
        source="Muon on the matrices of the layers, AdamW on the rest (arXiv 2502.16982)",
    ),
    Optimizer(
        name="adam8bit",
        states=(("exp_avg", "blockwise8"), ("exp_avg_sq", "blockwise8")),
        source="arXiv 2110.02861; bitsandbytes, block of 2,048",
    ),
    Optimizer(
        name="pagedadam8bit",
        states=(("exp_avg", "blockwise8"), ("exp_avg_sq", "blockwise8")),
        source="bitsandbytes, is_paged",
        paged=True,
    ),
    Optimizer(
        name="pagedadamw",
        states=(("exp_avg", "elementwise"), ("exp_avg_sq", "elementwise")),
        source="bitsandbytes, is_paged",
        paged=True,
    ),
)

OPTIMIZERS: dict[str, Optimizer] = {optimizer.name: optimizer for optimizer in _OPTIMIZERS}


def optimizer(name: str, field: str = "optimizer") -> Optimizer:
    """The optimizer of that name.

    Raises:
        InputError: there is none.
    """
    key = name.strip().lower().replace("-", "").replace("_", "").replace("8bitadam", "adam8bit")
    try:
        return OPTIMIZERS[key]
    except KeyError:
        raise InputError(
            field=field,
            value=name,
            problem="is not an optimizer that is modelled",
            accepted=", ".join(OPTIMIZERS),
        ) from None
