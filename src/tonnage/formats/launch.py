"""What a launch file of another tool says, in Tonnage's nouns."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.arch import Architecture
from tonnage.errors import InputError
from tonnage.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch file as it was read. Every key of the file is used, ignored or not understood.

    Attributes:
        kind: whose file it is (`tonnage.formats.KINDS`).
        model: a hub or catalog name that the file gives; None: it gives none.
        architecture: the shape that the file spells out; None: it does not.
        plan: fields of `tonnage.plan.Plan`, by name, that the file or its tool's defaults set.
        gpus: devices in all, where the file says so.
        device: which device, where the file says so.
        tokens: tokens of the whole run.
        steps: optimizer steps of the whole run.
        used: dotted paths of the keys that decided something above.
        ignored: those known to change neither memory nor time, or nothing that is modelled.
        not_understood: the others, and those whose value stands for nothing that is modelled.
        notes: what was assumed in reading, in sentences.
        lacks: what the tool needs, the file does not say and no default fills: ``model``,
            ``vocab`` (that of the architecture is then a stand-in), or fields of a plan.
        no_model: why the model that the file describes is not read; empty: it describes none.
        shrinks: the tool lowers the micro-batch where a rank's share of the global batch is less.
        by_width: habits that are so many times the square of the model's hidden size
            (DeepSpeed's ``"auto"``).
    """

    kind: str
    model: str | None = None
    architecture: Architecture | None = None
    plan: Mapping[str, Any]
    gpus: int | None = None
    device: str | None = None
    tokens: int | None = None
    steps: int | None = None
    used: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    no_model: str = ""
    by_width: Mapping[str, int] = field(default_factory=dict)
    shrinks: bool = False

    def sized(self, plan: Plan, architecture: Architecture) -> Plan:
        """The plan with the habits that depend on the model's width, where it has none.

        Args:
            plan: of this launch.
            architecture: what is trained.
        """
        given = dict(plan.habits)
        more = {name: str(n * architecture.hidden**2) for name, n in self.by_width.items()}
        if not set(more) - set(given):
            return plan
        return dataclasses.replace(plan, habits=tuple(sorted({**more, **given}.items())))

    def require(self, given: Collection[str]) -> None:
        """Insist that what the file lacks is given beside it.

        Args:
            given: ``model`` and fields of a plan that the person gives.

        Raises:
            InputError: the file lacks something else; the hint says what to give.
        """
        missing = [
            _LACKING.get(name, (name, f"--{name}")) for name in self.lacks if name not in given
        ]
        if missing:
            what = " and no ".join(what for what, _ in missing)
            how = " and ".join(how for _, how in missing)
            told = self.no_model and "model" in self.lacks and "model" not in given
            why = f" ({self.no_model})" if told else ""
            raise InputError(
                field="config", value=self.kind, problem=f"file names no {what}{why}: give {how}"
            )


_LACKING = {
    "model": ("model that Tonnage can read", "MODEL"),
    "vocab": ("vocabulary size that is known", "--vocab-size"),
    "seq": ("sequence length", "--seq"),
    "mbs": ("micro-batch size", "--mbs"),
    "gbs": ("global batch size", "--gbs or --grad-acc"),
}
