"""Seconds of the cross-entropy."""

from __future__ import annotations

from tonnage.algebra import Number
from tonnage.ledger.head import logits
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.kernel import Rates


def loss_seconds(setting: Setting, rate: Rates) -> Number:
    """Memory traffic of the loss, by the runtime's rule, over bandwidth; both passes."""
    moved = constants.LOSS_TRAFFIC[setting.runtime.loss] * logits(setting).elements
    return moved / rate.memory
