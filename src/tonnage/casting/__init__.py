"""What values become in each number format: element by element, and in blocks with a scale."""

from tonnage.casting.blocks import Block, cast_blocks
from tonnage.casting.cast import CASTS, Cast, cast, read_values

__all__ = ["CASTS", "Block", "Cast", "cast", "cast_blocks", "read_values"]
