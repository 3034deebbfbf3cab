"""Single operations: FLOPs, bytes moved, arithmetic intensity, and what bounds them."""

from tonnage.intensity.bound import Bounded, bound
from tonnage.intensity.find import find_operation
from tonnage.intensity.work import Work

__all__ = ["Bounded", "Work", "bound", "find_operation"]
