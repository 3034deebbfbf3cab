"""One rank's first steps, allocation by allocation, through the caching allocator.

What a stage allocates before training, then its micro-batches in the order of the
schedule, the optimizer's step, and the same again: blocks that one step frees are cut up
by the next, and what the second finds is not what the first did. The most that the
allocator has taken from the driver by then is the *reserved* peak.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import Collective
from tonnage.ledger.optimizer import state_bytes
from tonnage.memory.allocator import Allocator, Block, OutOfMemoryError, Policy
from tonnage.memory.pipe import Pipe, turns
from tonnage.memory.program import Kind, Program
from tonnage.memory.schedule import shortened
from tonnage.memory.states import parameter_bytes
from tonnage.memory.timeline import Recorder
from tonnage.memory.units import Units
from tonnage.plan import Setting
from tonnage.plan.schedule import Pass
from tonnage.timing.clocks import Clocks, Costs

STEPS = 3
"""Steps until blocks fall in the same places again: the first lacks optimizer states, the
second cuts up what the first has left."""

BUCKET = 25 * 2**20
"""DistributedDataParallel's default ``bucket_cap_mb``."""

Frame = dict[str, Block]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a replay has found, in bytes.

    Attributes:
        allocated: the most in blocks.
        reserved: the most in segments.
        retries: how often the driver had no more and cached segments were given back.
    """

    allocated: int
    reserved: int
    retries: int


def replay(
    setting: Setting,
    ledgers: tuple[StageLedger, ...],
    stage: int,
    costs: Costs,
    capacity: int,
    steps: int = STEPS,
) -> Replayed:
    """The first steps of a stage on a device with ``capacity`` bytes for the allocator.

    Where that is not enough, the figures are those of a device without end.
    """
    try:
        return Replay(setting, ledgers, stage, costs, Policy(capacity=capacity)).run(steps)
    except OutOfMemoryError:
        unbounded = Replay(setting, ledgers, stage, costs).run(steps)
        return dataclasses.replace(unbounded, reserved=max(unbounded.reserved, capacity + 1))


class Replay:
    """One stage's rank: its allocator, its clocks, and the storages that are filled."""

    def __init__(
        self,
        setting: Setting,
        ledgers: tuple[StageLedger, ...],
        stage: int,
        costs: Costs,
        policy: Policy | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.setting = setting
        self.ledger = ledgers[stage]
        self.costs = costs
        self.allocator = Allocator(policy)
        self.clocks = Clocks(agreed=costs.blocking)
        units = Units(setting, costs)
        self.chunks = units.chunks(self.ledger)
        around = [turns(sum(units.chunks(ledger), ())) for ledger in ledgers]
        self.pipe = Pipe(setting, stage, tuple(each.both for each in around))
        self.hosts = Pipe(setting, stage, tuple(each.host for each in around))
        self.message = self._message()
        self.frames: dict[tuple[int, int, int], Frame] = {}
        self.outputs: dict[tuple[int, int], Block] = {}
        self.gradients: dict[tuple[int, int, str], Block] = {}
        self.lasting: dict[str, list[Block]] = {}
        self.touched: dict[Block, str] = {}
        self.recorder = recorder

    def run(self, steps: int = STEPS) -> Replayed:
        """Play the first steps."""
        self._start()
        self.allocator.empty_cache()
        for _ in range(steps):
            self._step()
        return Replayed(
            allocated=self.allocator.peak_allocated,
            reserved=self.allocator.peak_reserved,
            retries=self.allocator.retries,
        )

    # What lasts.

    def _last(self, name: str, *sizes: int) -> None:
        if name not in self.lasting:
            self.lasting[name] = [self._take(size, name) for size in sizes if size]

    def _each(self) -> list[Weight]:
        return [weight for weight, count in self.ledger.weights() for _ in range(count)]

    def _shards(self, weight: Weight, from_stage: int) -> int:
        if self.setting.zero < from_stage:
            return 1
        return int(self.setting.shard if weight.group == "dense" else self.setting.expert_shard)

    def _start(self) -> None:
        """Parameters one by one; gradients and masters in one piece each; buckets."""
        setting, recipe = self.setting, self.setting.precision
        weights = self._each()
        self._last(
            "parameters",
            *(math.ceil(parameter_bytes(setting, w) / self._shards(w, 3)) for w in weights),
        )
        trained = [w for w in weights if w.trains]

        def flat(format_name: str, stage: int) -> int:
            size = dtype(format_name)
            return sum(math.ceil(size.storage(w.numel) / self._shards(w, stage)) for w in trained)

        if setting.runtime.gradient_buffer == "persistent":
            self._last("gradients", flat(recipe.accumulation or recipe.gradients, 2))
        if recipe.master:
            self._last("masters", flat(recipe.master, 1))
        if setting.runtime.bucket_copy and setting.zero == 0 and int(setting.replicas) > 1:
            self._last("buckets", *_buckets(setting, trained))

    def _moments(self) -> None:
        """Two tensors a parameter, in the first step."""
        count = len(self.setting.optimizer.states)
        sizes = [
            math.ceil(state_bytes(self.setting, weight) / count / self._shards(weight, 1))
            for weight in self._each()
            if weight.trains
            for _ in range(count)
        ]
        self._last("moments", *sizes)

    # One step.

    def _step(self) -> None:
        setting = self.setting
        self.pipe.start(self.clocks.host)
        self.hosts.start(self.clocks.host)
        if self.recorder is not None:
            self.recorder.step()
        for one in shortened(setting.plan, self.ledger.stage.index, int(setting.grad_acc)):
            if self.recorder is not None:
                self.recorder.phase(_phase(one))
            if one.forward:
                self._forward(one)
            else:
                self._backward(one)
        self.clocks.drain()  # the loss and the gradients' norm are read
        if self.recorder is not None:
            self.recorder.phase("optimizer step")
        self._moments()
        self._update()
        self.clocks.drain()

    def _update(self) -> None:
        """The end of a step: gathered weights of ZeRO-1, and gradients that go."""
        setting = self.setting
        if setting.zero == 1 and setting.runtime.step_copies and int(setting.replicas) > 1:
            whole = sum(int(parameter_bytes(setting, w)) for w in self._each() if w.trains)
            ranks = int(setting.replicas)
            share = whole // ranks
            blocks = [self._take(share, "gathered copy") for _ in range(ranks + 1)]
            blocks.append(self._take(share * ranks, "gathered weights"))
            for block in blocks:
                self._free(block)
        if setting.runtime.gradient_buffer == "in-backward":
            self._drop_gradients()

    def _drop_gradients(self) -> None:
        for block in self.gradients.values():
            self._free(block)
        self.gradients.clear()

    # One pass.

    def _forward(self, one: Pass) -> None:
        units = self.chunks[one.chunk]
        block = None
        if not (self.ledger.stage.embedding and one.chunk == 0):
            block = self._receive(one)
        for place, unit in enumerate(units):
            frame: Frame = {}
            self.frames[one.chunk, place, one.microbatch] = frame
            if block is not None and unit.forward.enters:
                frame[unit.forward.enters] = block
            block = self._play(unit.forward, frame, (one.chunk, place))
        if block is not None:
            self.outputs[one.chunk, one.microbatch] = block
            self._send(block)
            self._sent(one)
            if self._waits() and not self._before_last():
                self.clocks.drain()

    def _backward(self, one: Pass) -> None:
        units = self.chunks[one.chunk]
        output = self.outputs.pop((one.chunk, one.microbatch), None)
        block = None
        if output is not None:
            block = self._receive(one)
        for place in range(len(units) - 1, -1, -1):
            unit = units[place]
            frame = self.frames.pop((one.chunk, place, one.microbatch))
            key = (one.chunk, place)
            if unit.again is not None:
                self._discard(self._play(unit.again, frame, key))
            if block is not None and unit.backward.enters:
                frame[unit.backward.enters] = block
            block = self._play(unit.backward, frame, key)
            for left in frame.values():
                self._free(left)
        if block is not None:
            self._send(block)
        self._sent(one)
        self._discard(block)
        self._discard(output)
        if self.setting.precision.accumulation:
            self._drop_gradients()

    def _discard(self, block: Block | None) -> None:
        if block is not None:
            self._free(block)

    def _receive(self, one: Pass) -> Block:
        """A tensor from the neighbour, which the kernels that follow wait for."""
        block = self._take(self.message.bytes, "received")
        self.touched[block] = "pp"
        self.clocks.send(self.costs.collective(self.message), "pp", arrives=self.pipe.arrives(one))
        if self._waits() and not one.forward and self._before_last():
            self.clocks.wait(self.hosts.arrives(one))
        self.clocks.join("pp")
        return block

    def _waits(self) -> bool:
        return self.setting.runtime.pipeline_host == "waits" and self.setting.plan.pp > 1

    def _before_last(self) -> bool:
        """Whether the next stage is the last."""
        return self.ledger.stage.index == self.setting.plan.pp - 2

    def _message(self) -> Collective:
        stream = layer_input(self.setting)
        return Collective(kind="send", axis="pp", bytes=int(stream.bytes), phase="forward")

    def _sent(self, one: Pass) -> None:
        self.pipe.sent(one, self.clocks.main)
        self.hosts.sent(one, self.clocks.host)

    def _send(self, block: Block) -> None:
        self.touched[block] = "pp"
        self.clocks.send(self.costs.collective(self.message), "pp")

    def _play(self, program: Program, frame: Frame, key: tuple[int, int]) -> Block | None:
        clocks = self.clocks
        for kind, slot, size, cost, touched in program.steps:
            if kind == Kind.TAKE:
                frame[slot] = self._take(size, slot)
            elif kind == Kind.DROP:
                self._free(frame.pop(slot))
            elif kind == Kind.RUN:
                clocks.run(cost)
            elif kind == Kind.SEND:
                clocks.send(cost, slot)
                for name in touched:
                    self.touched[frame[name]] = slot
            elif kind == Kind.JOIN:
                clocks.join(slot)
            elif kind == Kind.LAST:
                self._last(slot, size)
            else:
                self._weight_gradient((*key, slot), size)
        return frame.pop(program.leaves, None)

    def _weight_gradient(self, key: tuple[int, int, str], size: int) -> None:
        if key[2] == "embedding.weight" and self.ledger.stage.embedding:
            key = (0, 0, key[2])
        block = self._take(size, f"gradient of {key[2]}")
        held = self.setting.precision.accumulation or (
            self.setting.runtime.gradient_buffer == "in-backward"
        )
        if held and key not in self.gradients:
            self.gradients[key] = block
        else:
            self._free(block)

    def _take(self, size: int, name: str) -> Block:
        retries = self.allocator.retries
        block = self.allocator.malloc(size, now=self.clocks.host)
        if self.allocator.retries != retries:
            self.clocks.drain()
        if self.recorder is not None:
            self.recorder.took(self.clocks.host, name, block)
        return block

    def _free(self, block: Block) -> None:
        if self.recorder is not None:
            self.recorder.gave(self.clocks.host, block)
        axis = self.touched.pop(block, None)
        self.allocator.free(block, ready=self.clocks.streams[axis] if axis else 0.0)


def _phase(one: Pass) -> str:
    """A pass as a person reads it."""
    way = "forward" if one.forward else "backward"
    return f"{way} of micro-batch {one.microbatch}"


def _buckets(setting: Setting, weights: list[Weight]) -> list[int]:
    """Gradients in the order that they arrive, cut into buckets; a larger one is alone."""
    recipe = setting.precision
    size = dtype(recipe.weights if recipe.accumulation else recipe.gradients)
    buckets = [0]
    for weight in reversed(weights):
        each = int(size.storage(weight.numel))
        if buckets[-1] and buckets[-1] + each > BUCKET:
            buckets.append(0)
        buckets[-1] += each
    return buckets
