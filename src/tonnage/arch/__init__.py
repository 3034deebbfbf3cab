"""What is trained: `Architecture`, config.json -> `Architecture`, and a catalog."""

from tonnage.arch.architecture import Architecture
from tonnage.arch.catalog import catalog_names
from tonnage.arch.config import read_config
from tonnage.arch.feed_forward import MLP, FeedForward, MoE
from tonnage.arch.layer import Layer, Mixer
from tonnage.arch.load import Found, find_config, load
from tonnage.arch.mixer import Attention, CompressedAttention, Indexer, LatentAttention
from tonnage.arch.norm import CENTRED_RMSNORM, LAYERNORM, RMSNORM, Norm
from tonnage.arch.recurrent import (
    GatedDelta,
    LightningAttention,
    Mamba,
    Mamba2,
    Recurrent,
    ShortConvolution,
)
from tonnage.arch.vision import Patches, VisionTower

__all__ = [
    "CENTRED_RMSNORM",
    "LAYERNORM",
    "MLP",
    "RMSNORM",
    "Architecture",
    "Attention",
    "CompressedAttention",
    "FeedForward",
    "Found",
    "GatedDelta",
    "Indexer",
    "LatentAttention",
    "Layer",
    "LightningAttention",
    "Mamba",
    "Mamba2",
    "Mixer",
    "MoE",
    "Norm",
    "Patches",
    "Recurrent",
    "ShortConvolution",
    "VisionTower",
    "catalog_names",
    "find_config",
    "load",
    "read_config",
]
