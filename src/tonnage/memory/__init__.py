"""Bytes over time: states, activations, buffers, and what lies outside the tensors."""

from tonnage.memory.checkpoint import checkpoint_bytes
from tonnage.memory.outside import Outside, outside, reserved_bytes
from tonnage.memory.peak import CATEGORIES, Instant, StageMemory, stage_memory
from tonnage.memory.reserved import reserved_by_stage

__all__ = [
    "CATEGORIES",
    "Instant",
    "Outside",
    "StageMemory",
    "checkpoint_bytes",
    "outside",
    "reserved_by_stage",
    "reserved_bytes",
    "stage_memory",
]
