"""What a step costs beside its micro-batches, by parts of a model: floors of seconds.

Replicas exchange gradients and parameters, and the optimizer steps. Both are told by the layers
of a stage, and by what the states are sharded over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import largest
from tonnage.cluster import Cluster
from tonnage.ledger import StageLedger
from tonnage.ledger.operation import Phase
from tonnage.plan import Setting
from tonnage.timing.kernel import Rates
from tonnage.timing.replicas import (
    PHASES,
    exchange_seconds,
    exchanged_by_layer,
    hides,
    left_over,
    optimizer_seconds,
)
from tonnage.timing.traffic import data_parallel_traffic

Floats = NDArray[np.float64]

ROUNDING: Final = 8
"""Bytes that rounding up each part by itself can add to a sum that is rounded up once."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Of one part, or of several as rows; by shards.

    Attributes:
        busy: seconds of all that its replicas exchange in a step, hidden or not.
        stepped: seconds of the optimizer's step.
    """

    busy: Mapping[Phase, Floats]
    stepped: Floats


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What the parts of a model cost beside micro-batches.

    Attributes:
        setting: the run, in columns of shards.
        layers: each kind of layer, ``[kind, shard]``.
        ends: seconds of the optimizer's step for the embedding, and for the head, by shard.
        passes: in how many micro-batches of a step traffic of each phase goes, by shard.
        host: the least that the optimizer's step takes where states lie in host memory, by
            shard; None where they do not.
    """

    setting: Setting
    layers: Beside
    ends: tuple[Floats, Floats]
    passes: Mapping[Phase, Floats]
    host: Floats | None

    def shown(self, phase: Phase, busy: Floats, window: Floats) -> Floats:
        """What shows of so much traffic beside so much compute."""
        behind = window if hides(self.setting, phase) else np.zeros_like(window)
        shown: Floats = left_over(self.setting, busy, behind)
        return shown


def beside(
    setting: Setting, unit: StageLedger, cluster: Cluster, rate: Rates, shards: int
) -> Beside:
    """One part of a model; a layer's traffic is a piece of its own.

    A stage's traffic goes in as many equal pieces as it has layers, and the seconds of a piece
    are a concave function of its bytes: no sum over unequal pieces is above it. Of traffic that
    goes in buckets instead, or all at once, nothing is told.
    """
    traffic = data_parallel_traffic(setting, unit) if exchanged_by_layer(setting) else []

    def column(value: object) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (shards,))

    busy = {
        phase: column(
            exchange_seconds(
                setting, unit, [t for t in traffic if t.collective.phase == phase], cluster
            )
        )
        for phase in PHASES
    }
    stepped = column(optimizer_seconds(setting, unit, rate) - ROUNDING / rate.memory)
    return Beside(busy=busy, stepped=np.maximum(stepped, 0.0))


def passes(setting: Setting, unit: StageLedger, shards: int) -> dict[Phase, Floats]:
    """Micro-batches of a step in which traffic goes, by phase."""
    traffic = data_parallel_traffic(setting, unit)
    return {
        phase: np.broadcast_to(
            np.asarray(
                largest(t.count for t in traffic if t.collective.phase == phase), dtype=np.float64
            ),
            (shards,),
        )
        for phase in PHASES
    }


def stacked(parts: list[Beside]) -> Beside:
    """Parts as rows."""
    return Beside(
        busy={phase: np.stack([part.busy[phase] for part in parts]) for phase in PHASES},
        stepped=np.stack([part.stepped for part in parts]),
    )
