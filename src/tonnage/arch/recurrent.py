"""Mixers that carry a state of fixed size along the sequence, instead of all past keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.arch.norm import Norm


@dataclass(frozen=True, kw_only=True)
class GatedDelta:
    """The gated delta rule behind a short convolution.

    With one decay a head it is Gated DeltaNet (arXiv 2412.06464; ``Qwen3NextGatedDeltaNet``),
    with one a channel Kimi Delta Attention (arXiv 2510.26692; ``KimiLinearDeltaAttention``).

    Attributes:
        key_heads: heads of queries and keys, n_k.
        value_heads: heads of values, each with a state of its own, n_v; a multiple of n_k.
        key_head_dim: width of a query or key head, d_k.
        value_head_dim: width of a value head, d_v.
        conv_kernel: taps of the convolution over queries, keys and values.
        decay: how many numbers a token's decay is: one a ``head``, or one a key ``channel``.
        gate_rank: width of the latent that the output gate (and a decay of channels) goes
            through; None: a direct projection.
    """

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    decay: Literal["head", "channel"] = "head"
    gate_rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class Mamba:
    """A selective state space model (Mamba, arXiv 2312.00752; ``MambaMixer``).

    Attributes:
        inner: channels of the scan.
        state: numbers that each channel carries, N.
        step_rank: width of the latent that the step sizes go through.
        conv_kernel: taps of the convolution.
        conv_bias: the convolution has a bias.
        bias: biases on the input and output projections.
        norm: normalisation of step latent, B and C before the scan (Jamba), or None.
    """

    inner: int
    state: int
    step_rank: int
    conv_kernel: int
    conv_bias: bool = True
    bias: bool = False
    norm: Norm | None = None


@dataclass(frozen=True, kw_only=True)
class Mamba2:
    """State space duality (Mamba-2, arXiv 2405.21060; ``Mamba2Mixer``).

    Attributes:
        heads: heads of the scan, n.
        head_dim: channels of a head, P.
        groups: heads of B and C, which the scan's heads share, G.
        state: numbers that each channel carries, N.
        conv_kernel: taps of the convolution over x, B and C.
        chunk: positions that are worked on as one block.
        conv_bias: the convolution has a bias.
        bias: biases on the input and output projections.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    conv_kernel: int
    chunk: int
    conv_bias: bool = True
    bias: bool = False


@dataclass(frozen=True, kw_only=True)
class LightningAttention:
    """Linear attention with a fixed decay a head (arXiv 2401.04658; ``MiniMaxLightningAttention``).

    Attributes:
        heads: heads, a.
        head_dim: width of a head, d.
        chunk: positions that are worked on as one block.
        norm: normalisation of what all heads read, before the output gate.
    """

    heads: int
    head_dim: int
    chunk: int
    norm: Norm


@dataclass(frozen=True, kw_only=True)
class ShortConvolution:
    """A gated convolution of a few taps (LFM2; ``Lfm2ShortConv``).

    Attributes:
        channels: channels of the convolution.
        conv_kernel: its taps.
        bias: biases on the convolution and both projections.
    """

    channels: int
    conv_kernel: int
    bias: bool = False


Recurrent: TypeAlias = GatedDelta | Mamba | Mamba2 | LightningAttention | ShortConvolution
