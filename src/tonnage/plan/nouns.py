"""A model, a plan and a cluster where they are asked for, and not their names."""

from __future__ import annotations

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.plan.plan import Plan

_NOUNS: dict[str, tuple[type, str]] = {
    "architecture": (Architecture, "tonnage.load({})"),
    "plan": (Plan, "tonnage.Plan(...)"),
    "cluster": (Cluster, "tonnage.parse_cluster({})"),
}


def check_nouns(**given: object) -> None:
    """Refuse what is no architecture, plan or cluster, such as the text that names one.

    Args:
        given: values by parameter: ``architecture``, ``plan`` and ``cluster``.

    Raises:
        InputError: one of them is something else; the error says how to make one of it.
    """
    for name, value in given.items():
        kind, made = _NOUNS[name]
        if isinstance(value, kind):
            continue
        article = "an" if kind is Architecture else "a"
        raise InputError(
            field=name,
            value=value,
            problem=f"is {type(value).__name__}, and not {article} {kind.__name__}",
            accepted=made.format(repr(value) if isinstance(value, str) else "..."),
        )


def check_clusters(clusters: object) -> None:
    """Refuse what is no list of clusters.

    Raises:
        InputError: it is none, is empty, or one of them is something else.
    """
    if not isinstance(clusters, tuple | list) or not clusters:
        raise InputError(
            field="clusters",
            value=clusters,
            problem="is no list of clusters",
            accepted="one or more, such as (tonnage.parse_cluster('8xH100'),)",
        )
    for cluster in clusters:
        check_nouns(cluster=cluster)
