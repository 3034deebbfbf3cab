"""An architecture and a setting whose numbers are symbols, and what each symbol stands for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tonnage.arch import (
    MLP,
    Architecture,
    Attention,
    CompressedAttention,
    GatedDelta,
    Indexer,
    LatentAttention,
    Layer,
    LightningAttention,
    Mamba,
    Mamba2,
    MoE,
    ShortConvolution,
)
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A symbol of a formula: its letter, its meaning and its value in this run."""

    name: str
    meaning: str
    value: int


# Symbol and meaning of each width that a layer can have, by class and field.
_WIDTHS: dict[tuple[type, str], tuple[str, str]] = {
    (Attention, "heads"): ("a", "query heads"),
    (Attention, "kv_heads"): ("k", "key-value heads"),
    (Attention, "head_dim"): ("d", "width of a head"),
    (Attention, "value_head_dim"): ("d_v", "width of a value head"),
    (Attention, "window"): ("w", "attention window"),
    (Attention, "chunk"): ("w_c", "tokens in a chunk of attention"),
    (Attention, "top_k"): ("K_s", "keys that an indexer picks"),
    (CompressedAttention, "heads"): ("a", "query heads"),
    (CompressedAttention, "head_dim"): ("d", "width of a head"),
    (CompressedAttention, "query_rank"): ("r_q", "width of the query latent"),
    (CompressedAttention, "output_groups"): ("g", "groups of heads at the output"),
    (CompressedAttention, "output_rank"): ("r_o", "width that a group is projected to"),
    (CompressedAttention, "window"): ("w", "attention window"),
    (CompressedAttention, "top_k"): ("K_s", "blocks that an indexer picks"),
    (Indexer, "heads"): ("a_i", "heads of the indexer"),
    (Indexer, "head_dim"): ("d_i", "width of the indexer's heads"),
    (Indexer, "query_rank"): ("r_q", "width of the query latent"),
    (LatentAttention, "heads"): ("a", "query heads"),
    (LatentAttention, "query_rank"): ("r_q", "width of the query latent"),
    (LatentAttention, "kv_rank"): ("r_kv", "width of the key-value latent"),
    (LatentAttention, "nope_head_dim"): ("d_n", "width of a key head without position"),
    (LatentAttention, "rope_head_dim"): ("d_r", "width of a key head with position"),
    (LatentAttention, "value_head_dim"): ("d_v", "width of a value head"),
    (LatentAttention, "top_k"): ("K_s", "keys that an indexer picks"),
    (GatedDelta, "key_heads"): ("n_k", "heads of queries and keys"),
    (GatedDelta, "value_heads"): ("n_v", "heads of values"),
    (GatedDelta, "key_head_dim"): ("d_k", "width of a query or key head"),
    (GatedDelta, "value_head_dim"): ("d_v", "width of a value head"),
    (GatedDelta, "conv_kernel"): ("w_c", "taps of the convolution"),
    (GatedDelta, "gate_rank"): ("r_g", "width of the latent of the gates"),
    (LightningAttention, "heads"): ("a", "query heads"),
    (LightningAttention, "head_dim"): ("d", "width of a head"),
    (LightningAttention, "chunk"): ("Q", "tokens in a chunk"),
    (Mamba, "inner"): ("h_i", "channels of the scan"),
    (Mamba, "state"): ("N", "state of a channel"),
    (Mamba, "step_rank"): ("r_s", "width of the latent of the step sizes"),
    (Mamba, "conv_kernel"): ("w_c", "taps of the convolution"),
    (Mamba2, "heads"): ("n_h", "heads of the scan"),
    (Mamba2, "head_dim"): ("P", "channels of a head"),
    (Mamba2, "groups"): ("G", "groups of B and C"),
    (Mamba2, "state"): ("N", "state of a channel"),
    (Mamba2, "chunk"): ("Q", "tokens in a chunk"),
    (Mamba2, "conv_kernel"): ("w_c", "taps of the convolution"),
    (ShortConvolution, "channels"): ("h_c", "channels of the convolution"),
    (ShortConvolution, "conv_kernel"): ("w_c", "taps of the convolution"),
    (MLP, "intermediate"): ("f", "intermediate width of the MLP"),
    (MoE, "experts"): ("E", "routed experts"),
    (MoE, "top_k"): ("K", "experts that a token visits"),
    (MoE, "latent"): ("r_e", "width of a token on its way to the experts"),
}

_DEGREES = {
    "tp": ("t", "tensor-parallel size"),
    "cp": ("c", "context-parallel size"),
    "ep": ("e", "expert-parallel size"),
    "etp": ("t_e", "tensor-parallel size of an expert"),
    "dp": ("D", "data-parallel size"),
    "shard": ("n", "ranks that ZeRO shards over"),
    "mbs": ("b", "sequences in a micro-batch"),
    "grad_acc": ("m", "micro-batches in a step"),
    "seq": ("s", "tokens in a sequence"),
}


class Symbols:
    """Hands out symbols: one for each meaning and value."""

    def __init__(self, sympy: Any) -> None:
        self._sympy = sympy
        self.table: dict[str, Symbol] = {}

    def of(self, name: str, meaning: str, value: int) -> Any:
        """The symbol for a value; a second value under the same name gets a prime."""
        while name in self.table and self.table[name].value != value:
            name += "'"
        self.table[name] = Symbol(name=name, meaning=meaning, value=value)
        return self._sympy.Symbol(name, positive=True, integer=True)


def symbolic_architecture(
    architecture: Architecture, symbols: Symbols, padded_vocab: int | None = None
) -> Architecture:
    """The architecture with symbols for its widths; counts of layers stay numbers."""
    meaning = "vocabulary" if padded_vocab is None else "vocabulary, padded"
    vocab = padded_vocab or architecture.vocab
    kinds = {layer: _symbolic(layer, symbols, "") for layer in architecture.kinds()}
    return dataclasses.replace(
        architecture,
        hidden=symbols.of("h", "hidden size", architecture.hidden),
        vocab=symbols.of("V", meaning, vocab),
        layers=tuple(kinds[layer] for layer in architecture.layers),
    )


def symbolic_setting(setting: Setting, symbols: Symbols) -> Setting:
    """The setting with symbols for its degrees and lengths; a degree of 1 stays 1."""
    changes: dict[str, Any] = {
        name: symbols.of(letter, meaning, int(getattr(setting, name)))
        for name, (letter, meaning) in _DEGREES.items()
        if int(getattr(setting, name)) > 1
    }
    architecture = symbolic_architecture(setting.architecture, symbols, int(setting.vocab))
    return dataclasses.replace(setting, architecture=architecture, **changes)


def _symbolic(part: Any, symbols: Symbols, suffix: str) -> Any:
    """A layer or a part of one with its widths replaced, down through its own parts."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        known = _WIDTHS.get((type(part), field.name))
        if known and value is not None:
            letter, meaning = known
            # Heads that share keys and values have a symbol of their own; others have not.
            if field.name == "kv_heads" and value == part.heads:
                letter, meaning = _WIDTHS[Attention, "heads"]
            changes[field.name] = symbols.of(letter + suffix, meaning, value)
        elif dataclasses.is_dataclass(value):
            inner = {"expert": "_e", "shared": "_s"}.get(field.name, suffix)
            changes[field.name] = _symbolic(value, symbols, inner)
    replaced: Layer | Any = dataclasses.replace(part, **changes)
    return replaced
