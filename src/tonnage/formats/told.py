"""What a tool is to be told: a plan whose every field a writer must take, or say it cannot."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.plan import Plan

_NEVER_TOLD = frozenset({"runtime", "dp", "moe_imbalance", "iteration"})
"""What the number of ranks decides, and what only an estimate is told."""


class Told:
    """A plan on its way into a file.

    Args:
        kind: the tool.
        architecture: what is trained.
        plan: how, with every blank filled.
        given: the plan before its blanks were filled: what a person asked for.
        cluster: where.
        steps: how long; None: not said.
    """

    def __init__(
        self,
        *,
        kind: str,
        architecture: Architecture,
        plan: Plan,
        given: Plan,
        cluster: Cluster,
        steps: int | None = None,
    ) -> None:
        self.kind = kind
        self.architecture = architecture
        self.plan = plan
        self.cluster = cluster
        self.steps = steps
        self.warnings: list[str] = []
        self.explained: set[str] = set()
        self._left = {
            field.name: getattr(given, field.name)
            for field in dataclasses.fields(given)
            if getattr(given, field.name) != getattr(Plan(), field.name)
            and field.name not in _NEVER_TOLD | {"habits"}
        }
        self._habits = dict(given.habits)

    def take(self, field: str) -> Any:
        """The value of a field, which the file will say."""
        self._left.pop(field, None)
        return getattr(self.plan, field)

    def choose(self, field: str, **choices: Any) -> Any:
        """What the tool calls the value of a field.

        Args:
            field: of the plan.
            **choices: the tool's word for each value that it can be told.

        Raises:
            InputError: it can be told none.
        """
        value = str(self.take(field)).replace("-", "_").lower()
        if value not in choices:
            self.refuse(field, ", ".join(name.replace("_", "-") for name in choices))
        return choices[value]

    def habit(self, name: str) -> str | None:
        """The value of a habit that is overridden, which the file will say."""
        return self._habits.pop(name, None)

    def refuse(self, field: str, accepted: str = "") -> NoReturn:
        """Refuse a field that the tool cannot be told.

        Raises:
            InputError: always.
        """
        raise InputError(
            field=field,
            value=getattr(self.plan, field),
            problem=f"is nothing that {self.kind} can be told",
            accepted=accepted,
        )

    def beside(self, *fields: str) -> None:
        """Leave fields to what the file is used with, and say so of those that were asked for."""
        for field in fields:
            if field in self._left:
                value = self._left.pop(field)
                text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                self.warn(f"{field} {text}: for the training script, not for {self.kind}'s file")

    def warn(self, sentence: str, *fields: str) -> None:
        """Say what the tool lacks.

        Args:
            sentence: what is said.
            fields: of the architecture that it speaks of; ``*`` for all of them.
        """
        self.explained.update(fields)
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def finish(self) -> None:
        """Refuse what no line of the file says.

        Raises:
            InputError: the plan asks for something that the tool cannot be told.
        """
        for name in self._left:
            self.refuse(name, "leave it out")
        for name, value in self._habits.items():
            self.warn(f"habit {name}={value} is nothing that {self.kind} can be told")

    @property
    def nodes(self) -> int:
        """Hosts."""
        return self.cluster.nodes

    @property
    def per_node(self) -> int:
        """Processes on one host."""
        return self.cluster.gpus // self.cluster.nodes
