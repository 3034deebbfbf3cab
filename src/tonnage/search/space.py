"""The legal space: degrees as columns, recomputation, ZeRO, shards, loss.

What depends on one field alone is asked of the checks of `tonnage.plan` themselves, value by
value; what ties several numbers together is written again over columns, in `joint`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import divisors
from tonnage.arch import MoE
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.plan import Plan
from tonnage.plan.check import check_model
from tonnage.plan.resolve import default_seq
from tonnage.runtime import Runtime, runtime, with_habits
from tonnage.search.away import Away, ways
from tonnage.search.layouts import Deck, decks
from tonnage.search.legality import Columns, exchanged, joint
from tonnage.search.modes import modes
from tonnage.search.question import Question

DEGREES: Final = ("tp", "cp", "ep", "etp", "mbs")
"""What a layer's work on a rank depends on; dp and the accumulation follow."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """The legal plans of one question on one cluster."""

    question: Question
    cluster: Cluster

    @cached_property
    def base(self) -> Plan:
        """What all plans share, its sequence length filled in."""
        base = self.question.base
        return dataclasses.replace(base, seq=base.seq or default_seq(self.question.architecture))

    @cached_property
    def runtime(self) -> Runtime:
        """The stack, with the habits that every plan overrides."""
        return with_habits(runtime(self.base.runtime), self.base.habits)

    @cached_property
    def pipelines(self) -> tuple[int, ...]:
        """Legal numbers of stages that divide the GPUs."""
        return self._legal("pp", divisors(self.cluster.gpus))

    def decks(self, pp: int) -> tuple[Deck, ...]:
        """Layouts of so many stages, by virtual stages and schedule."""
        return tuple(decks(self.question, self.runtime, pp))

    def sequence_parallel(self) -> tuple[bool, ...]:
        """Whether sequence parallelism is on, where tp is more than 1."""
        offered = (True, False) if "sp" in self.runtime.axes else (False,)
        return tuple(value for value in offered if self.question.allows("sp", value))

    def rows(self, pp: int, *, sp: bool, exchange: str | None = None) -> Columns:
        """Legal degrees, batch and accumulation of so many stages, without interleaving.

        With ``sp`` those with tp of more than 1; without it also those with 1. Those with cp of
        1, which exchange nothing, are of the first of the exchanges; None: that one.
        """
        stage = self.cluster.gpus // pp
        gbs = self.base.gbs or 1
        axes = {
            "tp": self._tensor(sp),
            "cp": self._legal("cp", divisors(stage)),
            "ep": self._legal("ep", divisors(self._experts)),
            "etp": self._legal("etp", divisors(stage)),
            "mbs": tuple(n for n in divisors(gbs) if self.question.allows("mbs", n)),
        }
        grid = np.meshgrid(*(np.array(v, dtype=np.int64) for v in axes.values()), indexing="ij")
        rows = {name: values.ravel() for name, values in zip(axes, grid, strict=True)}
        rows["dp"] = np.maximum(stage // (rows["tp"] * rows["cp"]), 1)
        rows["grad_acc"] = np.maximum(gbs // (rows["mbs"] * rows["dp"]), 1)
        rows["seq"] = np.full_like(rows["tp"], self.base.seq or 1)
        legal = joint(rows, pp=pp, vpp=1, sp=sp, plan=self.base, cluster=self.cluster)
        exchange = exchange or self.exchanges[0]
        legal &= exchanged(rows, exchange, self.question.architecture)
        if exchange != self.exchanges[0]:
            legal &= rows["cp"] > 1
        for knob in ("dp", "grad_acc"):
            if knob in self.question.choices:
                legal &= np.isin(rows[knob], self.question.choices[knob])
        return {name: column[legal] for name, column in rows.items()}

    @cached_property
    def zero_stages(self) -> tuple[int, ...]:
        """ZeRO stages of the runtime."""
        return tuple(z for z in self.runtime.zero_stages if self.question.allows("zero", z))

    def shards(self, rows: Columns, zero: int) -> Iterator[tuple[bool, Columns, NDArray[np.int64]]]:
        """The rows with what parameters are sharded over: all replicas, then a part of them.

        Yields whether it is a part (HSDP), the rows with their shard, and the index of each
        among those given.
        """
        replicas = rows["dp"] * rows["cp"]
        every = np.arange(len(replicas))
        if self.question.allows("hsdp_shard", None):
            yield False, {**rows, "shard": replicas}, every
        if zero == 0:
            return
        sizes = divisors(int(np.lcm.reduce(np.unique(replicas)))) if len(replicas) else ()
        if "hsdp_shard" in self.question.choices:
            sizes = tuple(n for n in self.question.choices["hsdp_shard"] if n is not None)
        whole = "hsdp_shard" in self.question.choices
        ties = self.question.ties
        group = rows["cp"] if ties.shard_by_cp else 1
        pairs = [
            (every[legal], size)
            for size in sizes
            if size >= ties.least_shard
            and (
                legal := (replicas % size == 0) & ((size < replicas) | whole) & (size % group == 0)
            ).any()
        ]
        if pairs:
            index = np.concatenate([chosen for chosen, _ in pairs])
            shard = np.concatenate([np.full(len(chosen), size) for chosen, size in pairs])
            yield True, {**{n: c[index] for n, c in rows.items()}, "shard": shard}, index

    @cached_property
    def losses(self) -> tuple[str, ...]:
        """The runtime's own loss and its fused one, or those asked for."""
        if "loss" in self.question.choices:
            return tuple(self.question.choices["loss"])
        fused = self.runtime.fused_loss
        return (self.runtime.loss,) if fused is None else (self.runtime.loss, fused)

    @cached_property
    def exchanges(self) -> tuple[str, ...]:
        """Ways of context-parallel ranks to share keys and values: the runtime's, or those asked.

        Each is a space of its own, whose plans differ by little from those of another.
        """
        return tuple(self.question.choices.get("cp_comm", (self.runtime.cp_comm,)))

    @cached_property
    def other_exchanges(self) -> tuple[str, ...]:
        """Those that the runtime has beside them, where none is asked for."""
        if "cp_comm" in self.question.choices:
            return ()
        return tuple(each for each in self.runtime.exchanges if each not in self.exchanges)

    def aways(self, zero: int) -> tuple[Away, ...]:
        """What of the states can lie in host memory, the least on the device first."""
        question = self.question
        found = ways(
            question.kept_away("offload_parameters"), question.kept_away("offload_optimizer")
        )
        return tuple(away for away in found if self._can_be_away(zero, away))

    def _can_be_away(self, zero: int, away: Away) -> bool:
        plan = dataclasses.replace(self.base, **{**_ALONE, "zero": zero, **away.fields})
        try:
            check_model(plan, self.question.architecture, self.runtime)
        except InputError:
            return False
        return True

    @cached_property
    def _depths(self) -> dict[int, int]:
        return {}

    def depths(self, longest: int) -> int:
        """Ways of recomputation where the longest chunk has so many layers."""
        if longest not in self._depths:
            self._depths[longest] = len(modes(self.question, longest))
        return self._depths[longest]

    @cached_property
    def _experts(self) -> int:
        """Experts of the first kind of layer that has any; the checks ask the others."""
        kinds = self.question.architecture.kinds()
        return next((kind.mlp.experts for kind in kinds if isinstance(kind.mlp, MoE)), 1)

    def _tensor(self, sp: bool) -> tuple[int, ...]:
        found = self._legal("tp", divisors(self.cluster.gpus), sp=sp)
        if not sp and self.question.ties.sp_with_tp:
            return tuple(tp for tp in found if tp == 1)
        return tuple(tp for tp in found if tp > 1 or not sp)

    def _legal(self, axis: str, candidates: Iterable[int], **others: Any) -> tuple[int, ...]:
        """The values of an axis that the checks of a plan let pass by themselves."""
        kept = []
        for value in candidates:
            plan = dataclasses.replace(
                self.base, **{**_ALONE, "zero": self.runtime.zero, **others, axis: value}
            )
            try:
                check_model(plan, self.question.architecture, self.runtime)
            except InputError:
                continue
            if self.question.allows(axis, value):
                kept.append(value)
        return tuple(kept)


_ALONE: Final[dict[str, Any]] = {
    "schedule": "1f1b",
    "offload_parameters": False,
    "sp": True,
    "cp_comm": None,
}
"""With these a degree can be checked by itself."""
