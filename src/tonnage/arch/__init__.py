"""What is trained: `Architecture`, config.json -> `Architecture`, and a catalog."""

from tonnage.arch.architecture import (
    LAYERNORM,
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    Mixer,
    MoE,
    Norm,
    VisionTower,
)

__all__ = [
    "LAYERNORM",
    "MLP",
    "RMSNORM",
    "Architecture",
    "Attention",
    "FeedForward",
    "LatentAttention",
    "Layer",
    "Mixer",
    "MoE",
    "Norm",
    "VisionTower",
]
