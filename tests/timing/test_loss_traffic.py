"""Every rule of the loss has its traffic."""

from __future__ import annotations

import typing

from tonnage.runtime import LossRule
from tonnage.timing.constants import LOSS_TRAFFIC


def test_every_rule_of_the_loss_has_its_traffic() -> None:
    assert set(LOSS_TRAFFIC) == set(typing.get_args(LossRule))
