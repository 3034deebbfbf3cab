"""Copies to host memory: what passes are too short to hide."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.strategies import DENSE, cluster
from tonnage.cluster import find_device
from tonnage.estimation import estimate
from tonnage.ledger import StageLedger, saved_bytes, stage_ledgers
from tonnage.plan import Plan, Setting, resolve
from tonnage.timing.host_memory import copied_step, exposed_copies, host_bandwidth

NODE = cluster(4)
PCIE = host_bandwidth(NODE.device)


def stage(**plan: Any) -> tuple[Setting, StageLedger]:
    resolved = resolve(Plan(**{"seq": 256, **plan}), DENSE, NODE)
    (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
    return resolved.setting, ledger


@pytest.mark.parametrize(
    ("name", "bandwidth"), [("A100", 31.5e9), ("H100", 63e9), ("GB200", 450e9), ("V100", 15.75e9)]
)
def test_the_link_to_the_host(name: str, bandwidth: float) -> None:
    assert host_bandwidth(find_device(name)) == bandwidth


def test_a_pass_hides_as_much_as_it_lasts() -> None:
    setting, ledger = stage(offload_activations=True)
    (operations,) = ledger.layers.values()
    one_way = 8 * int(saved_bytes(setting, operations)) / PCIE
    for forward, backward in ((0.0, 0.0), (one_way / 2, one_way), (2 * one_way, 0.0)):
        shown = max(one_way - forward, 0) + max(one_way - backward, 0)
        found = exposed_copies(setting, ledger, NODE, forward, backward)
        assert found == pytest.approx(shown, rel=1e-12)


def test_nothing_is_copied_unless_asked() -> None:
    setting, ledger = stage()
    assert exposed_copies(setting, ledger, NODE, 0.0, 0.0) == 0.0
    assert copied_step(setting, ledger, NODE) == 0.0


def test_a_step_on_the_host_moves_gradients_there_and_weights_back() -> None:
    """bf16-mixed: 4 bytes of gradient and 2 of weight, of a fourth of the parameters."""
    setting, ledger = stage(offload_optimizer=0.5)
    numel = sum(int(n * w.numel) for w, n in ledger.weights())
    assert copied_step(setting, ledger, NODE) == pytest.approx(0.5 * 6 * numel / 4 / PCIE, rel=1e-6)


def test_the_step_is_longer_for_it() -> None:
    plain, away = (
        estimate(DENSE, Plan(seq=256, offload_optimizer=share), NODE) for share in (0.0, 1.0)
    )
    assert away.step.breakdown["optimizer"] > plain.step.breakdown["optimizer"]
    assert any("host's processor" in text for text in away.not_modelled)
