"""What a run measured of its own network is an input only where it is asked for."""

import pytest

from tests.score.test_scoring import row
from tonnage.score import Row
from tonnage.score.case import case
from tonnage.score.predict import predict


def gathered(rate: float, gpus: int = 64, **cells: str) -> Row:
    measured = f"hTFLOPs=40; measured_bus_bw_GBps AR=90.0 AG={rate} RS=50.0 AG_intra=240"
    several = {
        "framework": "nanotron",
        "tp": "8",
        "num_gpus": str(gpus),
        "gpus_per_node": "8",
        "interconnect": "NVLink4; AWS p5 EFA 3200Gbps",
        "gbs": "256",
    }
    return row(**{**several, "other_measured": measured, **cells})


def blocks(measured: Row) -> dict[str, str]:
    asked = case(measured, measured_network=True)
    return {name: value for name, value in asked.plan.habits if name == "verified_collectives"}


@pytest.mark.parametrize("gpus", [16, 32, 64, 128, 256, 512])
def test_a_collective_that_waits_for_every_rank_is_told_from_one_that_does_not(gpus: int) -> None:
    alone = 1.2e9 / (1.2e9 / 360e9 + gpus * 40e-6) / 1e9
    waiting = 1.2e9 / (1.2e9 / 360e9 + gpus * 340e-6) / 1e9
    assert blocks(gathered(alone, gpus)) == {"verified_collectives": "false"}
    assert blocks(gathered(waiting, gpus)) == {"verified_collectives": "true"}


def test_without_the_flag_it_is_not_looked_at() -> None:
    assert predict(gathered(10.0)) == predict(gathered(300.0))
    seen = predict(gathered(10.0), measured_network=True).seconds
    assert seen > predict(gathered(300.0), measured_network=True).seconds


@pytest.mark.parametrize("rate", ["0.0", "none", ""])
def test_nothing_measured_changes_nothing(rate: str) -> None:
    silent = gathered(1.0, other_measured=f"AG={rate}")
    assert predict(silent, measured_network=True) == predict(silent)


def test_one_node_tells_nothing() -> None:
    assert blocks(gathered(10.0, gpus=8)) == {}
