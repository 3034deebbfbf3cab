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
from tonnage.arch.catalog import catalog_names
from tonnage.arch.config import read_config
from tonnage.arch.load import load

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
    "catalog_names",
    "load",
    "read_config",
]
