"""What mixes the channels of one position: a dense block, or a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class MLP:
    """A feed-forward block: up, activation, down; gated ones have two up projections.

    Attributes:
        intermediate: width between the projections, f.
        gated: ``down(act(gate(x)) * up(x))`` (SwiGLU, GeGLU) and not ``down(act(up(x)))``.
        activation: the activation's name as the config gives it.
        bias: biases on all projections.
    """

    intermediate: int
    gated: bool
    activation: str
    bias: bool = False


@dataclass(frozen=True, kw_only=True)
class MoE:
    """A mixture of experts: a router sends each token to ``top_k`` of ``experts`` MLPs.

    Attributes:
        experts: routed experts, E.
        top_k: experts that a token visits, K.
        expert: one routed expert.
        shared: the MLP that every token visits beside the routed ones, or None.
        shared_gate: the shared expert's output is scaled by a learnt gate (Qwen2-MoE).
        router_bias: the router projection has a bias.
        latent: width that tokens are projected to before they are sent to the experts, and
            back from (Nemotron 3 Super); None: experts read the hidden state.
        latent_bias: biases on these two projections.
    """

    experts: int
    top_k: int
    expert: MLP
    shared: MLP | None = None
    shared_gate: bool = False
    router_bias: bool = False
    latent: int | None = None
    latent_bias: bool = False


FeedForward: TypeAlias = MLP | MoE
