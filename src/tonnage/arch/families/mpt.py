"""MPT (MosaicML, 2023): ALiBi, no biases anywhere, norms included.

The class in transformers has ALiBi, a width of 4 h and no biases whatever the file says;
a file that says otherwise is refused.
"""

from __future__ import annotations

from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import even_head_dim, layer_count
from tonnage.arch.feed_forward import MLP
from tonnage.arch.keys import Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import Norm

BIASLESS: Final = Norm(kind="layernorm")


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``mpt``."""
    attention = keys.nested("attn_config") if keys.values.get("attn_config") is not None else None
    if keys.count("expansion_ratio", default=4) != 4:
        keys.refuse("expansion_ratio", problem="is not modelled", accepted="4")
    if not keys.flag("no_bias", default=True):
        keys.refuse("no_bias", problem="is not modelled", accepted="true")
    if attention is not None:
        _refuse_variants(attention)
    dropout = attention.fraction("attn_pdrop", default=0.0) if attention is not None else 0.0
    hidden = keys.count("d_model", "hidden_size")
    clips = attention is not None and attention.is_set("clip_qkv")
    layer = _layer(keys, hidden, dropout=dropout, clips=clips)
    return Architecture(
        name="",
        family="",
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        layers=(layer,) * layer_count(keys, "n_layers", "num_hidden_layers"),
        final_norm=BIASLESS,
        tied_embeddings=keys.flag("tie_word_embeddings", default=True),
        max_positions=keys.count("max_seq_len"),
    )


def _layer(keys: Keys, hidden: int, *, dropout: float, clips: bool) -> Layer:
    heads = keys.count("n_heads", "num_attention_heads")
    return Layer(
        mixer=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=even_head_dim(keys, hidden=hidden, heads=heads, key="d_model"),
            rope=False,
            clip=clips,
            dropout=dropout,
        ),
        mlp=MLP(intermediate=4 * hidden, gated=False, activation="gelu"),
        mixer_norm=BIASLESS,
        mlp_norm=BIASLESS,
        dropout=dropout,
    )


def _refuse_variants(attention: Keys) -> None:
    for name, accepted in (("alibi", True), ("qk_ln", False), ("prefix_lm", False)):
        if attention.flag(name, default=accepted) is not accepted:
            attention.refuse(name, problem="is not modelled", accepted=str(accepted).lower())
    if attention.word("attn_type", default="multihead_attention") != "multihead_attention":
        attention.refuse("attn_type", problem="is not modelled", accepted="multihead_attention")
