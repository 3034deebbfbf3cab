"""The reference transformer: a decoder in plain PyTorch, as an Architecture describes it.

It is written in the way that the profiles ``fsdp2`` and ``ddp`` stand for: norms and
activations in Python, one linear layer for each of queries, keys, values, gate and up, rotary
tables that the model keeps as buffers. Attention is local to a rank's heads, so that
`tonnage.pytorch.parallel` may split every layer without a change here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.loss.loss_utils import ForCausalLMLoss

from tonnage.arch import MLP, Attention, Layer, Norm
from tonnage.plan import Setting
from tonnage.pytorch.formats import FORMATS
from tonnage.pytorch.kernels import flash_or_efficient

Rotary = tuple[torch.Tensor, torch.Tensor]


class RMSNorm(nn.Module):  # type: ignore[misc]
    """Root-mean-square norm (arXiv 1910.07467), in fp32, written in Python."""

    def __init__(self, width: int, *, weight: bool, centred: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width)) if weight else None
        self.centred = centred

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        """``x / rms(x) · w``, over the last axis."""
        wide = read.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.weight is None:
            return wide.to(read.dtype)
        if self.centred:
            return (wide * (1.0 + self.weight.float())).to(read.dtype)
        return self.weight * wide.to(read.dtype)


def build_norm(spec: Norm, width: int) -> nn.Module:
    """The norm that an architecture names."""
    if spec.kind == "layernorm":
        return nn.LayerNorm(width, elementwise_affine=spec.weight, bias=spec.bias)
    return RMSNorm(width, weight=spec.weight, centred=spec.centred)


class CoreAttention(nn.Module):  # type: ignore[misc]
    """Scores, softmax, and the weighted sum of the values, ``[batch, heads, seq, width]``."""

    def __init__(self, setting: Setting, spec: Attention) -> None:
        super().__init__()
        self.flash = setting.plan.attention == "flash"
        self.wide = spec.softmax_fp32 and setting.runtime.softmax == "fp32"
        self.dropout = spec.dropout
        self.scale = spec.head_dim**-0.5

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """The context, ``[batch, seq, heads, width]``."""
        if self.flash:
            return flash_or_efficient(query, key, value, self.dropout, causal=True)
        times = query.shape[1] // key.shape[1]
        key, value = _repeated(key, times), _repeated(value, times)
        scores = query @ key.transpose(2, 3) * self.scale + mask
        format_ = torch.float32 if self.wide else scores.dtype
        weights = torch.softmax(scores, -1, dtype=format_).to(query.dtype)
        weights = nn.functional.dropout(weights, self.dropout, training=self.training)
        return (weights @ value).transpose(1, 2)


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    """Every key or value head once for each query head of its group."""
    if times == 1:
        return heads
    batch, count, seq, width = heads.shape
    wide = heads[:, :, None].expand(batch, count, times, seq, width)
    return wide.reshape(batch, count * times, seq, width)


class AttentionPart(nn.Module):  # type: ignore[misc]
    """Softmax attention over the heads that this rank holds."""

    def __init__(self, setting: Setting, spec: Attention) -> None:
        super().__init__()
        hidden, width = setting.architecture.hidden, spec.head_dim
        self.width = width
        self.turned = int(width * spec.rope_fraction) if spec.rope else 0
        self.q = nn.Linear(hidden, spec.heads * width, bias=spec.qkv_bias)
        self.k = nn.Linear(hidden, spec.kv_heads * width, bias=spec.qkv_bias)
        self.v = nn.Linear(hidden, spec.kv_heads * width, bias=spec.qkv_bias)
        self.q_norm = build_norm(spec.qk_norm, width) if spec.qk_norm else None
        self.k_norm = build_norm(spec.qk_norm, width) if spec.qk_norm else None
        self.core = CoreAttention(setting, spec)
        self.output = nn.Linear(spec.heads * width, hidden, bias=spec.output_bias)

    def forward(self, read: torch.Tensor, rotary: Rotary, mask: torch.Tensor) -> torch.Tensor:
        """The branch, as large as what is read."""
        query, key, value = (self._heads(part(read)) for part in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        if self.turned:
            query, key = (turn(part, rotary, self.turned) for part in (query, key))
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        context = self.core(query, key, value, mask)
        del query, key, value
        return self.output(context.flatten(2))

    def _heads(self, projected: torch.Tensor) -> torch.Tensor:
        return projected.unflatten(-1, (-1, self.width))


def turn(heads: torch.Tensor, rotary: Rotary, width: int) -> torch.Tensor:
    """The first ``width`` channels of each head turned by position (arXiv 2104.09864).

    Of ``[batch, seq, heads, width]``: a kernel writes its output in the order of the queries.
    """
    cosine, sine = (table[:, None, :] for table in rotary)
    part = heads[..., :width]
    left, right = part.chunk(2, -1)
    turned = part * cosine + torch.cat((-right, left), -1) * sine
    if width == heads.shape[-1]:
        return turned
    return torch.cat((turned, heads[..., width:]), -1)


class FeedForwardPart(nn.Module):  # type: ignore[misc]
    """``down(act(gate(x)) · up(x))``, or ``down(act(up(x)))``."""

    def __init__(self, hidden: int, spec: MLP) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, spec.intermediate, bias=spec.bias) if spec.gated else None
        self.up = nn.Linear(hidden, spec.intermediate, bias=spec.bias)
        self.down = nn.Linear(spec.intermediate, hidden, bias=spec.bias)
        self.activation: Callable[..., Any] = ACT2FN[spec.activation]

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        """The branch, as large as what is read."""
        if self.gate is None:
            return self.down(self.activation(self.up(read)))
        return self.down(self.activation(self.gate(read)) * self.up(read))


class Block(nn.Module):  # type: ignore[misc]
    """One layer: a mixer and a feed-forward part around a residual stream."""

    def __init__(self, setting: Setting, layer: Layer) -> None:
        super().__init__()
        hidden = setting.architecture.hidden
        assert isinstance(layer.mixer, Attention)
        assert isinstance(layer.mlp, MLP)

        def norm(spec: Norm | None) -> nn.Module | None:
            return build_norm(spec, hidden) if spec is not None else None

        self.parallel = layer.parallel
        self.dropout = layer.dropout
        self.mixer_norm = norm(layer.mixer_norm)
        self.attention = AttentionPart(setting, layer.mixer)
        self.mixer_output_norm = norm(layer.mixer_output_norm)
        self.mlp_norm = norm(layer.mlp_norm)
        self.mlp = FeedForwardPart(hidden, layer.mlp)
        self.mlp_output_norm = norm(layer.mlp_output_norm)

    def forward(self, stream: torch.Tensor, rotary: Rotary, mask: torch.Tensor) -> torch.Tensor:
        """The residual stream after the layer."""
        first = _through(self.mixer_norm, stream)
        mixed = _through(self.mixer_output_norm, self.attention(first, rotary, mask))
        if not self.parallel:
            del first
            stream = stream + self._dropped(mixed)
            del mixed
            second = _through(self.mlp_norm, stream)
            return stream + self._dropped(_through(self.mlp_output_norm, self.mlp(second)))
        second = first if self.mlp_norm is None else self.mlp_norm(stream)
        fed = _through(self.mlp_output_norm, self.mlp(second))
        return stream + self._dropped(mixed) + self._dropped(fed)

    def _dropped(self, branch: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(branch, self.dropout, training=self.training)


def _through(norm: nn.Module | None, read: torch.Tensor) -> torch.Tensor:
    return read if norm is None else norm(read)


class ReferenceTransformer(nn.Module):  # type: ignore[misc]
    """A decoder from tokens to logits.

    Attributes:
        loss_function: the loss of transformers' causal models, from the logits
            ``[batch, seq, vocab]`` and the tokens ``[batch, seq]``.
    """

    loss_function = staticmethod(ForCausalLMLoss)

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        architecture = setting.architecture
        hidden, vocab, seq = architecture.hidden, int(setting.vocab), int(setting.seq)
        self.embedding = nn.Embedding(vocab, hidden)
        learnt = architecture.learned_positions
        self.positions = nn.Embedding(learnt, hidden) if learnt else None
        self.dropout = architecture.embedding_dropout
        self.layers = nn.ModuleList(Block(setting, layer) for layer in architecture.layers)
        last = architecture.final_norm
        self.norm = build_norm(last, hidden) if last is not None else None
        self.head = nn.Linear(hidden, vocab, bias=architecture.head_bias)
        self.tied = architecture.tied_embeddings
        self.tie()
        self._make_tables(setting, seq)

    def _make_tables(self, setting: Setting, seq: int) -> None:
        """Positions, rotary tables and the additive mask: what every micro-batch reads."""
        format_ = FORMATS[setting.precision.activations]
        mixers = [layer.mixer for layer in setting.architecture.layers]
        widths = {
            int(mixer.head_dim * mixer.rope_fraction)
            for mixer in mixers
            if isinstance(mixer, Attention) and mixer.rope
        }
        (width,) = widths or {0}
        self.register_buffer("places", torch.empty(seq, dtype=torch.long))
        self.register_buffer("cosine", torch.empty(seq, width, dtype=format_))
        self.register_buffer("sine", torch.empty(seq, width, dtype=format_))
        square = seq if setting.plan.attention == "eager" else 0
        # Under autocast the scores are added to what the stream's format gives them.
        stream = FORMATS[setting.stream]
        self.register_buffer("mask", torch.empty(square, square, dtype=stream))

    def tie(self) -> None:
        """Let the head and the embedding be one weight, where the architecture says so."""
        if self.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits ``[batch, seq, vocab]`` of tokens ``[batch, seq]``."""
        stream = self.embedding(tokens)
        if self.positions is not None:
            stream = stream + self.positions(self.places)
        stream = nn.functional.dropout(stream, self.dropout, training=self.training)
        for layer in self.layers:
            stream = layer(stream, (self.cosine, self.sine), self.mask)
        return self.head(_through(self.norm, stream))
