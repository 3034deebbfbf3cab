"""The back of the envelope: how long a run takes, and how large a model can be.

Every answer carries its formula, with symbols and with numbers, and what the formula
leaves out. Where the envelope is known to mislead, the ledger's count stands beside it.
"""

from tonnage.napkin.capacity import DEFAULT_RECIPE, Capacity, MaxParameters, max_parameters
from tonnage.napkin.duration import LedgerTime, TrainTime, train_time

__all__ = [
    "DEFAULT_RECIPE",
    "Capacity",
    "LedgerTime",
    "MaxParameters",
    "TrainTime",
    "max_parameters",
    "train_time",
]
