"""What a search is asked: a model, clusters to choose from, what is fixed, what is wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import Limits
from tonnage.plan import Plan
from tonnage.plan.nouns import check_clusters, check_nouns
from tonnage.plan.resolve import default_seq
from tonnage.plan.values import check_values
from tonnage.runtime import Offload, runtime
from tonnage.search.question_check import (
    check_amount,
    check_choices,
    check_count,
    check_kind,
    check_prices,
    check_switch,
    check_word,
)

Objective: TypeAlias = Literal["time", "cost", "gpus", "headroom"]


KNOBS: Final = (
    *("tp", "sp", "pp", "vpp", "cp", "ep", "etp", "dp"),
    *("schedule", "first_stage_layers", "last_stage_layers"),
    *("account_for_embedding", "account_for_loss"),
    *("zero", "hsdp_shard", "mbs", "grad_acc"),
    *("recompute", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("loss", "cp_comm", "offload_parameters", "offload_optimizer", "offload_activations"),
)
"""The fields of a plan that a search chooses where they are not given."""

NAMELESS: Final = (
    "first_stage_layers",
    "last_stage_layers",
    "hsdp_shard",
    "recompute_method",
    "cp_comm",
)
"""The knobs of which None is a value: layers as evenly as they lie, one group of all ranks."""

DEFAULT_TOP = 5
_BLANK = Plan()

FRONTIER_SPAN = 1.25
"""The frontier goes from the best step time to this times it."""


@dataclass(frozen=True, kw_only=True)
class Ties:
    """What a launcher ties together, so that values of one knob cannot say it.

    Attributes:
        sp_with_tp: sequence parallelism wherever tp is more than 1.
        least_shard: the fewest ranks that parameters are sharded over, where it is not all.
        shard_by_cp: what parameters are sharded over holds whole groups of cp.
    """

    sp_with_tp: bool = False
    least_shard: int = 1
    shard_by_cp: bool = False


LOOSE: Final = Ties()
"""Nothing is tied."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be found.

    Attributes:
        architecture: what is trained.
        clusters: where it could run; each is searched by itself.
        base: what every plan shares: runtime, batch (``gbs``), ``seq``, formats, optimizer.
            Its `KNOBS` are not read: see ``choices``.
        choices: values that a knob is kept to, by field; every legal one where a knob is not
            named. ``recompute_modules`` takes sets of modules.
        ties: what a launcher ties together.
        limits: memory limit and margin, length of the run, efficiencies.
        objective: what the best plan has the least of: ``time`` of a step, ``cost`` of a step
            (or of the run), ``gpus``, or memory (``headroom``).
        prices: money for a GPU-hour, by name of the device as the catalog has it; ``""`` for
            every other.
        deadline: seconds that the whole run may take.
        budget: money that the whole run may cost.
        max_nodes: hosts that a cluster may have.
        fitting: whether plans must fit into memory.
        offload: whether plans may hold in host memory what the runtime can. A field that
            ``choices`` names is kept to its values all the same.
        top: how many plans to answer with.
        span: how far the frontier goes, as a multiple of the best step time.
    """

    architecture: Architecture
    clusters: tuple[Cluster, ...]
    base: Plan
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ties: Ties = LOOSE
    limits: Limits = field(default_factory=Limits)
    objective: Objective = "time"
    prices: Mapping[str, float] = field(default_factory=dict)
    deadline: float | None = None
    budget: float | None = None
    max_nodes: int | None = None
    fitting: bool = True
    offload: bool = True
    top: int = DEFAULT_TOP
    span: float = FRONTIER_SPAN

    def __post_init__(self) -> None:
        """Check what no search can do without, and what contradicts itself."""
        check_nouns(architecture=self.architecture, plan=self.base)
        check_clusters(self.clusters)
        self._check_kinds()
        for name in self.choices:
            if name not in KNOBS:
                raise InputError(
                    field=name,
                    value=self.choices[name],
                    problem="is not something that a search chooses",
                    accepted=", ".join(KNOBS),
                )
            if not self.choices[name]:
                raise InputError(field=name, value="()", problem="leaves no value to choose from")
            for value in self.choices[name]:
                if value is None and name not in NAMELESS:
                    raise InputError(
                        field=name,
                        value=None,
                        problem="is no value to choose",
                        accepted="a value, or a question that leaves the knob out",
                    )
                check_values(dataclasses.replace(_BLANK, **{name: value}))
        check_values(self.base)
        if self.base.gbs is None:
            raise InputError(
                field="gbs",
                value="",
                problem="is missing: plans of unequal batches cannot be compared",
                accepted="sequences in a step over all ranks",
            )
        if self.base.microbatch_group is not None:
            raise InputError(
                field="microbatch_group",
                value=self.base.microbatch_group,
                problem="holds for some numbers of stages, and a search goes through all",
                accepted="leave it out; tonnage estimate weighs it",
            )
        if self.top < 1:
            raise InputError(field="top", value=self.top, problem="is none", accepted="1 or more")
        self._check_money()

    def _check_kinds(self) -> None:
        check_choices(self.choices)
        check_kind("ties", self.ties, Ties)
        check_kind("limits", self.limits, Limits)
        check_word("objective", self.objective, get_args(Objective))
        check_prices(self.prices)
        for name, amount in {"deadline": self.deadline, "budget": self.budget}.items():
            if amount is not None:
                check_amount(name, amount, least=0.0, accepted="a number of at least 0")
        if self.max_nodes is not None:
            check_count("max_nodes", self.max_nodes)
        check_count("top", self.top)
        check_switch("fitting", self.fitting)
        check_switch("offload", self.offload)
        check_amount("span", self.span, least=1.0, accepted="a multiple, 1 or more")

    def _check_money(self) -> None:
        needs = {"deadline": self.deadline, "budget": self.budget}
        for name, value in needs.items():
            if value is not None and self.limits.tokens is None and self.limits.steps is None:
                raise InputError(
                    field=name,
                    value=value,
                    problem="needs the length of the run",
                    accepted="with --tokens or --steps",
                )
        if self.budget is None and self.objective != "cost":
            return
        for cluster in self.clusters:
            if self.price(cluster) is None:
                raise InputError(
                    field="price",
                    value=cluster.device.name,
                    problem="has no price, and cost is asked for",
                    accepted=f"--price 2.5, or --price {cluster.device.name}=2.5",
                )

    def price(self, cluster: Cluster) -> float | None:
        """Money for an hour of one of a cluster's devices."""
        return self.prices.get(cluster.device.name, self.prices.get(""))

    def limits_on(self, cluster: Cluster) -> Limits:
        """The limits with a cluster's price, where the run has a length that it can be of."""
        if self.limits.tokens is None and self.limits.steps is None:
            return self.limits
        return dataclasses.replace(self.limits, price=self.price(cluster))

    def allows(self, knob: str, value: object) -> bool:
        """Whether a value is among those that a knob is kept to."""
        return knob not in self.choices or value in self.choices[knob]

    def kept_away(self, field: Offload) -> tuple[Any, ...]:
        """Values of a field that says what lies in host memory: not there, and then there."""
        nothing = getattr(_BLANK, field)
        offered = self.offload and field in runtime(self.base.runtime).offloads
        usual = (nothing, type(nothing)(1)) if offered else (nothing,)
        return tuple(self.choices.get(field, usual))

    def steps(self) -> int | None:
        """Steps of the whole run, where its length is given."""
        if self.limits.steps is not None or self.limits.tokens is None:
            return self.limits.steps
        seq = self.base.seq or default_seq(self.architecture)
        tokens = (self.base.gbs or 1) * seq
        return -(-self.limits.tokens // tokens)

    def longest_step(self, cluster: Cluster) -> float:
        """Seconds that a step may take on a cluster: by deadline and budget."""
        steps = self.steps() or 1
        longest = float("inf") if self.deadline is None else self.deadline / steps
        price = self.price(cluster)
        if self.budget is not None and price:
            longest = min(longest, self.budget / (price * cluster.gpus / 3600.0) / steps)
        return longest
