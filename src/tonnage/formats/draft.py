"""A launch that is being read: fields of a plan with the keys that they come from.

What the keys ask for and Tonnage does not account for is taken out again when the reading
ends: its keys become ones that are not understood, and a note says so. An estimate then
stands for the rest of the file, and names what it leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.arch import Architecture
from tonnage.errors import InputError, NotModelledError
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.plan import Plan
from tonnage.plan.values import check_values
from tonnage.runtime import runtime


class Draft:
    """What a reader has found so far.

    Args:
        kind: whose file it is.
        fields: its keys.
        stack: the runtime that the tool is, if the file does not say otherwise.
    """

    def __init__(self, kind: str, fields: Fields, stack: str) -> None:
        self.kind = kind
        self.fields = fields
        self.plan: dict[str, Any] = {"runtime": stack}
        self.model: str | None = None
        self.architecture: Architecture | None = None
        self.gpus: int | None = None
        self.device: str | None = None
        self.tokens: int | None = None
        self.steps: int | None = None
        self.shrinks = False
        self._origins: dict[str, tuple[str, ...]] = {}
        self._habits: dict[str, str] = {}
        self._lacks: list[str] = []
        self._no_model = ""

    def put(self, field: str, value: object, *paths: str) -> None:
        """Set a field of the plan, unless the value is None.

        Args:
            field: of `tonnage.plan.Plan`.
            value: its value.
            paths: the keys that say so.
        """
        if value is not None:
            self.plan[field] = value
            self._origins[field] = paths

    def whole(self, field: str, *paths: str, least: int = 1) -> int | None:
        """Set a field to the whole number under the first of the keys, and return it."""
        value = self.fields.whole(*paths, least=least)
        self.put(field, value, *paths)
        return value

    def flag(self, field: str, *paths: str) -> bool | None:
        """Set a field to the truth under the first of the keys, and return it."""
        value = self.fields.flag(*paths)
        self.put(field, value, *paths)
        return value

    def habit(self, name: str, value: object) -> None:
        """Set a habit of the runtime over its own."""
        self._habits[name] = str(value).lower() if isinstance(value, bool) else str(value)

    def lack(self, *names: str) -> None:
        """Say what the file leaves to the person: ``model``, ``vocab`` or fields of a plan."""
        self._lacks.extend(name for name in names if name not in self._lacks)

    def no_model(self, why: str) -> None:
        """Say that the file lacks a model, and why its own is not read.

        Args:
            why: in a clause.
        """
        self.fields.note(why)
        self._no_model = why
        self.lack("model")

    def finish(self) -> Launch:
        """The launch, without what is not modelled."""
        for field in list(self._origins):
            why = unmodelled(self.plan, field, self._origins[field])
            if why:
                self._take_out(field, why)
        if self._habits:
            self.plan["habits"] = tuple(self._habits.items())
        if self.architecture is None and self.model is None:
            self.lack("model")
        account = self.fields.account()
        return Launch(
            kind=self.kind,
            model=self.model,
            architecture=self.architecture,
            plan=self.plan,
            gpus=self.gpus,
            device=self.device,
            tokens=self.tokens,
            steps=self.steps,
            notes=tuple(self.fields.notes),
            lacks=tuple(self._lacks),
            no_model=self._no_model,
            shrinks=self.shrinks,
            used=account["used"],
            ignored=account["ignored"],
            not_understood=account["not_understood"],
        )

    def _take_out(self, field: str, why: str) -> None:
        value = self.plan.pop(field)
        present = [path for path in self._origins[field] if path in self.fields.leaves]
        for path in present:
            self.fields.leave(path, f"{why}; left out")
        if not present:
            self.fields.note(f"{field} {value}: {why}; left out")


def unmodelled(plan: Mapping[str, Any], field: str, origins: tuple[str, ...]) -> str:
    """Why a field cannot be part of an estimate; empty: it can.

    Args:
        plan: fields of a plan, its runtime among them.
        field: one of them.
        origins: the keys that it comes from.

    Raises:
        InputError: its value is none of the field; the error names the key.
    """
    stack, value = runtime(plan["runtime"]), plan[field]
    if field in ("tp", "pp", "vpp", "cp", "ep", "etp") and field not in stack.axes:
        return f"no {field} is modelled with {stack.name}" if value > 1 else ""
    if field == "zero" and value not in stack.zero_stages:
        return f"no ZeRO stage {value} is modelled with {stack.name}"
    if field == "offload_parameters" and value:
        units = stack.sharding in ("fully-sharded", "flat-units") and plan.get("zero", 3) == 3
        return "" if units else f"is not modelled with {stack.name}"
    try:
        check_values(Plan(**{field: value}))
    except NotModelledError:
        return "is not modelled"
    except InputError as error:
        if not origins:
            raise
        raise InputError(
            field=f"config.{origins[0]}",
            value=error.value,
            problem=error.problem,
            accepted=error.accepted,
        ) from None
    return ""
