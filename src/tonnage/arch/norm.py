"""Normalisations, which layers and mixers both name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A normalisation over the last axis of its input.

    Attributes:
        kind: ``rmsnorm`` or ``layernorm``.
        bias: whether it has a bias beside its weight.
        weight: whether it has a weight at all.
    """

    kind: Literal["rmsnorm", "layernorm"]
    bias: bool = False
    weight: bool = True


RMSNORM = Norm(kind="rmsnorm")
LAYERNORM = Norm(kind="layernorm", bias=True)
