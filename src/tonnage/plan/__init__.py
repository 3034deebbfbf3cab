"""How a model is run: the plan, its checks, and the setting that the ledger reads."""

from tonnage.plan.layout import Stage, alike, stages
from tonnage.plan.optimizer import OPTIMIZERS, Optimizer, optimizer
from tonnage.plan.plan import LoraTarget, Plan
from tonnage.plan.precision import PRECISIONS, Precision, bytes_per_parameter, precision
from tonnage.plan.resolve import Resolved, resolve
from tonnage.plan.setting import Setting

__all__ = [
    "OPTIMIZERS",
    "PRECISIONS",
    "LoraTarget",
    "Optimizer",
    "Plan",
    "Precision",
    "Resolved",
    "Setting",
    "Stage",
    "alike",
    "bytes_per_parameter",
    "optimizer",
    "precision",
    "resolve",
    "stages",
]
