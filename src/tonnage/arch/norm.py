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
        centred: it multiplies by 1 + weight, and in fp32 before it casts back (Gemma).
    """

    kind: Literal["rmsnorm", "layernorm"]
    bias: bool = False
    weight: bool = True
    centred: bool = False


RMSNORM = Norm(kind="rmsnorm")
CENTRED_RMSNORM = Norm(kind="rmsnorm", centred=True)
LAYERNORM = Norm(kind="layernorm", bias=True)
