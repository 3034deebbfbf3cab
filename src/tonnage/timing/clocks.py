"""Two clocks: the host that issues work, and the device that does it.

The host runs ahead of the device. How far decides when the allocator sees that a
collective is over, and so when the memory that it has used can be used again. The clocks
here follow one rank through a list of launches: a main stream for kernels, one for
collectives, and the host.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from tonnage.cluster import Cluster
from tonnage.ledger import Operation, Tensor
from tonnage.ledger.operation import Collective
from tonnage.plan import Setting
from tonnage.timing.collective import collective_seconds
from tonnage.timing.efficiency import Efficiency
from tonnage.timing.kernel import Rates, backward_seconds, forward_seconds, rates
from tonnage.timing.traffic import mesh_axes

QUEUE = 1024
"""Launches that a CUDA stream holds before the host has to wait for the first of them."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What issuing work takes of the hosts of a group, in eager PyTorch.

    Attributes:
        launch: seconds of the slowest host for one kernel, from Python to the driver.
        collective: seconds of the slowest host for one collective.
        agreement: seconds a rank of the group, where each collective is first agreed upon
            over the hosts' network.
        ahead: a typical host's time over that of the slowest, which every collective of the
            group waits for. What it gains it runs ahead, until the queue is full.
        attention: kernels launched around a flash attention call: sequence offsets, padding.
        pieces: products that a column-parallel layer is cut into, so that the first runs
            while the other ranks' tokens are gathered.
    """

    launch: float = 28e-6
    collective: float = 150e-6
    agreement: float = 0.2e-3
    ahead: float = 0.87
    attention: int = 7
    pieces: int = 3


EAGER = Pace()
"""Hosts of H100 servers, from nanotron's public sweep. A layer's two passes of about eighty
launches and ten collectives take at least 4.3 ms, whatever its size, on 2, 4 and 8 GPUs. All
the same the queue is full from about the sixth micro-batch of a step on, and not before the
fourth: so the host of the rank that was measured is not the slowest."""

EVENTS = 4
"""Entries of a collective in the queue that all streams share under
CUDA_DEVICE_MAX_CONNECTIONS=1: the event that it waits for, the wait, itself, and the wait of
the kernels after it."""


class Cost(NamedTuple):
    """What a step costs: host seconds to issue it, device seconds to do it, and launches."""

    host: float = 0.0
    device: float = 0.0
    launches: int = 1


class Costs:
    """The cost of each kernel and collective of one setting on one cluster.

    Attributes:
        setting: the run.
    """

    def __init__(
        self, setting: Setting, cluster: Cluster, efficiency: Efficiency, pace: Pace = EAGER
    ) -> None:
        self.setting = setting
        self._cluster = cluster
        self._pace = pace
        self._rates: Rates = rates(setting, cluster.device, efficiency)
        self._axes = mesh_axes(setting)

    @property
    def blocking(self) -> bool:
        """Whether the ranks of a group agree on each collective before it starts."""
        return self.setting.runtime.verified_collectives

    def forward(self, operation: Operation) -> Cost:
        """An operation's forward pass."""
        if operation.kind == "communication":
            return Cost()
        device = float(forward_seconds(self.setting, self._rates, operation))
        split = operation.kind == "matmul" and self.setting.sp
        return self._kernel(operation, device, self._pace.pieces if split else 1)

    def backward(self, operation: Operation) -> Cost:
        """The gradient of an operation's inputs."""
        if operation.kind == "communication":
            return Cost()
        device = float(backward_seconds(self.setting, self._rates, operation))
        return self._kernel(operation, device / 2 if operation.kind == "matmul" else device)

    def weight(self, operation: Operation) -> Cost:
        """The gradient of a product's weights: the other half of its backward pass."""
        device = float(backward_seconds(self.setting, self._rates, operation))
        return Cost(host=self._pace.launch, device=device / 2)

    def launch(self) -> Cost:
        """Something that takes the device no time."""
        return Cost(host=self._pace.launch, device=0.0)

    def copy(self, operation: Operation) -> Cost:
        """Its outputs read and written once."""
        return self._moved(2 * sum(int(tensor.bytes) for tensor in operation.outputs))

    def sum(self, tensor: Tensor) -> Cost:
        """Two tensors of a size read, their sum written."""
        return self._moved(3 * int(tensor.bytes))

    def collective(self, collective: Collective) -> Cost:
        """A collective; nothing where its group is one rank."""
        axis = self._axes[collective.axis]
        if int(axis.size) == 1:
            return Cost()
        seconds = collective_seconds(collective, axis, self._cluster)
        host = self._pace.collective
        if self.blocking:
            host += self._pace.agreement * int(axis.size)
        return Cost(host=host, device=float(seconds))

    def _moved(self, size: int) -> Cost:
        return Cost(host=self._pace.launch, device=size / self._rates.memory)

    def _kernel(self, operation: Operation, device: float, launches: int = 1) -> Cost:
        if operation.kind == "attention":
            launches = self._pace.attention
        return Cost(host=launches * self._pace.launch, device=device, launches=launches)


class Clocks:
    """Where the host and the streams of the device are, in seconds.

    Attributes:
        host: the host.
        peer: the slowest host of the tensor-parallel group.
        agreed: whether hosts meet before each collective.
        main: the end of the last kernel issued.
        streams: the end of the last collective issued, by mesh axis: each group has a
            communicator and a stream of its own.
    """

    def __init__(self, pace: Pace = EAGER, *, agreed: bool = False) -> None:
        self.agreed = agreed
        self.host = 0.0
        self.peer = 0.0
        self.main = 0.0
        self.streams: dict[str, float] = {}
        self._queue: deque[tuple[float, int]] = deque()
        self._queued = 0
        self._ahead = pace.ahead

    def run(self, cost: Cost) -> None:
        """A kernel on the main stream."""
        self._issue(cost)
        self.main = max(self.main, self.host) + cost.device
        self._enqueue(self.main, cost.launches)

    def send(self, cost: Cost, axis: str, *, arrives: float = 0.0) -> None:
        """A collective: it waits for the kernels before it, and `join` for it.

        Args:
            cost: of the collective.
            axis: whose group.
            arrives: when the other side is ready.
        """
        self._issue(cost)
        if self.agreed:
            self.host = self.peer = max(self.host, self.peer)
        start = max(self.streams.get(axis, 0.0), self.main, self.host, self.peer, arrives)
        self.streams[axis] = start + cost.device

    def join(self, axis: str) -> None:
        """The main stream waits for the collectives of a group."""
        self.main = max(self.main, self.streams.get(axis, 0.0))
        self._enqueue(self.main, EVENTS)

    def drain(self) -> None:
        """The host waits for the device."""
        self.host = self.peer = max(self.host, self.peer, self.main, *self.streams.values())

    def wait(self, until: float) -> None:
        """The hosts wait."""
        self.host, self.peer = max(self.host, until), max(self.peer, until)

    def _issue(self, cost: Cost) -> None:
        self.peer += cost.host
        self.host += cost.host * self._ahead

    def _enqueue(self, done: float, launches: int) -> None:
        """Queue launches; where the queue is full, the host waits for the first in it."""
        self._queue.append((done, launches))
        self._queued += launches
        while self._queued > QUEUE:
            done, launches = self._queue.popleft()
            self._queued -= launches
            self.host = max(self.host, done)
