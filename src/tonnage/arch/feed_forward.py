"""What mixes the channels of one position: a dense block, or a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tonnage.arch.norm import Norm


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
        router_fp32: the class of transformers keeps the router's weight, and computes its
            scores, in fp32 (DeepSeek).
        latent: width that tokens are projected to before they are sent to the experts, and
            back from (Nemotron 3 Super); None: experts read the hidden state.
        latent_bias: biases on these two projections.
        router_norm: norm of what the router reads, or None (Gemma 4).
        expert_scale: a learnt factor on each expert's output (Gemma 4).
        input_norm: norm of the residual stream that the experts read in place of the
            layer's normed input, or None.
        output_norm: norm of the experts' combined output, or None.
        shared_output_norm: norm of the shared expert's output, or None.
    """

    experts: int
    top_k: int
    expert: MLP
    shared: MLP | None = None
    shared_gate: bool = False
    router_bias: bool = False
    router_fp32: bool = False
    latent: int | None = None
    latent_bias: bool = False
    router_norm: Norm | None = None
    expert_scale: bool = False
    input_norm: Norm | None = None
    output_norm: Norm | None = None
    shared_output_norm: Norm | None = None


FeedForward: TypeAlias = MLP | MoE
