"""What a command line asks to weigh: a model, a plan, a cluster and limits, from any source."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter

from tonnage.cli.cluster import ClusterFlags
from tonnage.cli.limits import LimitFlags
from tonnage.cli.stdin import show_hyphen
from tonnage.errors import InputError
from tonnage.plan import Plan
from tonnage.plan.idle import without_idle

if TYPE_CHECKING:
    from tonnage.arch import Architecture
    from tonnage.cli.config import Configured
    from tonnage.cluster import Cluster
    from tonnage.estimation import Limits

WHAT = Group("Model and plan", sort_key=1)

Several: TypeAlias = Literal["doubled", "every"]
"""How a range of ``--gpus`` is gone through: by doubling, or host by host."""

Model: TypeAlias = Annotated[
    str | None,
    Parameter(group=WHAT, help="A catalog name, a config.json, a folder, - or a hub name."),
]
"""MODEL, which a file can stand in for."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SourceFlags:
    """Files that say what to weigh in place of MODEL and of the plan's flags."""

    model_file: Annotated[
        str | None,
        Parameter(group=WHAT, metavar="FILE", help="A config.json, in place of MODEL."),
    ] = None
    vocab_size: Annotated[
        str | None,
        Parameter(
            group=WHAT, metavar="N", help="Rows of the token embedding, over the model's own."
        ),
    ] = None
    plan_file: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            metavar="FILE",
            help="Plan fields as JSON or TOML, or the output of --json. Flags go before it.",
        ),
    ] = None
    config: Annotated[
        tuple[str, ...],
        Parameter(
            group=WHAT,
            metavar="FILE",
            help="A launch file of another tool; MODEL and flags go before what it says. Several "
            "files of one run are given one by one: a later one's word stands.",
            negative_iterable="",
            show_default=False,
        ),
    ] = ()
    config_kind: Annotated[
        str | None,
        Parameter(
            group=WHAT, metavar="NAME", help="Whose launch file it is; left out: told by content."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is to be weighed.

    Attributes:
        architecture: the model.
        plan: how it is run.
        clusters: where: several only for a verb that goes through a list.
        limits: how long, and within what.
        configured: the launch file that it comes from, or None.
    """

    architecture: Architecture
    plan: Plan
    clusters: tuple[Cluster, ...]
    limits: Limits
    configured: Configured | None = None

    @property
    def cluster(self) -> Cluster:
        """The only cluster, or the first of the list."""
        return self.clusters[0]


def gather(
    model: str | None,
    source: SourceFlags,
    cluster: ClusterFlags,
    limits: LimitFlags,
    changes: dict[str, Any],
    *,
    several: Several | None = None,
    chosen: Collection[str] = (),
) -> Run:
    """Everything that a command line and its files say together.

    Args:
        model: MODEL.
        source: the files.
        cluster: flags of the cluster.
        limits: flags of the limits.
        changes: fields of the plan that flags set.
        several: how a list of ``--gpus`` is read; None: it is one cluster. With a list the limits
            have no price, which depends on the device.
        chosen: fields of the plan that a file need not say: they are searched.

    Raises:
        InputError: something is missing, given twice, or no value of its flag.
    """
    vocab = _vocabulary(source.vocab_size)
    if source.config:
        configured = _configured(model, source, cluster, changes, vocab, chosen)
        return _from_launch(configured, cluster, limits, changes, vocab, several=several)
    if source.config_kind is not None:
        raise InputError(
            field="config_kind", value=source.config_kind, problem="is given without --config"
        )
    from tonnage.arch import load

    named = named_model(model, source.model_file)
    where = clusters_of(cluster, several)
    plan = read_plan(source.plan_file, changes)
    within = limits.read(None if several is not None else where[0].device.name)
    return Run(
        architecture=_with_vocabulary(load(show_hyphen(named)), vocab),
        plan=plan,
        clusters=where,
        limits=within,
    )


def _configured(
    model: str | None,
    source: SourceFlags,
    cluster: ClusterFlags,
    changes: dict[str, Any],
    vocab: int | None,
    chosen: Collection[str],
) -> Configured:
    from tonnage.cli.config import Configured, count_of

    if source.plan_file is not None:
        raise InputError(
            field="plan_file", value=source.plan_file, problem="is given beside --config"
        )
    named = model
    if source.model_file is not None:
        named = named_model(model, source.model_file)
    return Configured.read(
        [show_hyphen(path) for path in source.config],
        source.config_kind,
        None if named is None else show_hyphen(named),
        changes,
        known={*chosen, *(("vocab",) if vocab is not None else ())},
        gpus=count_of(cluster.gpus),
    )


def _from_launch(
    configured: Configured,
    cluster: ClusterFlags,
    limits: LimitFlags,
    changes: dict[str, Any],
    vocab: int | None,
    *,
    several: Several | None,
) -> Run:
    where = clusters_of(configured.full(cluster), several)
    architecture = _with_vocabulary(configured.architecture(), vocab)
    plan = configured.launch.sized(configured.settled(where[0]), architecture)
    return Run(
        clusters=where,
        limits=configured.limits(limits, None if several is not None else where[0].device.name),
        architecture=architecture,
        # Launch files set what their run has no use for; a flag that does is an error.
        plan=without_idle(plan, architecture, keep=changes),
        configured=configured,
    )


def clusters_of(flags: ClusterFlags, several: Several | None) -> tuple[Cluster, ...]:
    """The clusters that the flags stand for: one, unless a list is asked for.

    Raises:
        InputError: a flag stands for nothing, or two contradict each other.
    """
    return (flags.read(),) if several is None else flags.read_all(every=several == "every")


def named_model(model: str | None, file: str | None) -> str:
    """MODEL or the file that stands in for it.

    Raises:
        InputError: neither is given, or both.
    """
    if (model is None) == (file is None):
        raise InputError(
            field="MODEL",
            value="" if model is None else model,
            problem="is missing" if model is None else "is given beside --model-file",
            accepted="a catalog name, a config.json, a folder, - or a hub name",
            hint="" if model is None else "one of the two",
        )
    # A name without a folder could be a name of the catalog.
    if file is None:
        return str(model)
    return file if file == "-" else os.path.join(os.curdir, file)


def read_plan(path: str | None, changes: dict[str, Any]) -> Plan:
    """The plan of the file, or a blank one, with what the flags say put over it.

    Raises:
        InputError: the file cannot be used.
    """
    if path is None:
        return Plan(**changes)
    from tonnage.cli import plan_file

    return dataclasses.replace(plan_file.read_plan(show_hyphen(path)), **changes)


def _vocabulary(text: str | None) -> int | None:
    if text is None:
        return None
    from tonnage.cli.values import whole
    from tonnage.plan.values import positive

    return positive("vocab_size", whole("vocab_size", text))


def _with_vocabulary(architecture: Architecture, vocab: int | None) -> Architecture:
    return architecture if vocab is None else dataclasses.replace(architecture, vocab=vocab)
