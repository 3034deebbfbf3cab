"""MiniMax-01 and M1 (arXiv 2501.08313): seven layers of lightning attention to one of softmax."""

from __future__ import annotations

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    mixture,
    pre_norm_layer,
)
from tonnage.arch.families.hybrid_blocks import LINEAR, mixed_layers
from tonnage.arch.keys import Keys
from tonnage.arch.norm import RMSNORM
from tonnage.arch.recurrent import LightningAttention


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``minimax``.

    The factors with which residual sums are weighed change no count.
    """
    attention = grouped_query_attention(keys, kv_required=True)
    lightning = LightningAttention(
        heads=attention.heads,
        head_dim=attention.head_dim,
        chunk=keys.count("block_size", default=256),
        norm=RMSNORM,
    )
    moe = mixture(
        keys, experts=keys.count("num_local_experts", "num_experts"), expert=gated_mlp(keys)
    )
    parts = {FULL: pre_norm_layer(attention, moe), LINEAR: pre_norm_layer(lightning, moe)}
    # A file without a list means full attention in every other layer, the first among them.
    alternating = tuple(FULL if i % 2 == 0 else LINEAR for i in range(layer_count(keys)))
    return decoder(keys, layers=mixed_layers(keys, parts, default=alternating), tied=False)
