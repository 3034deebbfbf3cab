"""``--config FILE``: a launch file of another tool in place of MODEL and the plan's flags."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.cluster import ClusterFlags
from tonnage.errors import InputError, shorten
from tonnage.plan import Plan

if TYPE_CHECKING:
    from tonnage.arch import Architecture
    from tonnage.cli.limits import LimitFlags
    from tonnage.cluster import Cluster
    from tonnage.estimation import Limits
    from tonnage.formats import Launch

_COUNT = re.compile(r"\s*([0-9]{1,9})\s*[x×*]", re.IGNORECASE)
_LIST = re.compile(r",|\.\.")
_SHOWN = 6
_ALTERNATIVES = {"gbs": "grad_acc", "grad_acc": "gbs"}
"""Fields of which one follows from the other."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configured:
    """A launch file with what stands beside it on the command line.

    Attributes:
        launch: the file.
        plan: its plan, with the flags over it.
        model: MODEL where it is given.
    """

    launch: Launch
    plan: Plan
    model: str | None

    @classmethod
    def read(
        cls,
        paths: Sequence[str],
        kind: str | None,
        model: str | None,
        changes: Mapping[str, Any],
        *,
        known: Collection[str],
        gpus: int | None,
    ) -> Configured:
        """Read the files and put the command line over them.

        Args:
            paths: the files; ``-`` for stdin.
            kind: ``--config-kind``.
            model: MODEL, or None.
            changes: fields of the plan that flags set.
            known: what the file need not say besides: ``vocab``, and fields of the plan.
            gpus: devices that ``--gpus`` counts, or None.

        Raises:
            InputError: the file cannot be read, or neither it nor a flag says what is needed.
        """
        from tonnage.formats import read_launch

        launch = read_launch(*paths, kind=kind, gpus=gpus)
        launch.require({*changes, *known, *(("model", "vocab") if model else ())})
        dropped = {_ALTERNATIVES.get(name) for name in changes}
        fields = {name: v for name, v in launch.plan.items() if name not in dropped}
        return cls(launch=launch, plan=Plan(**{**fields, **changes}), model=model)

    def architecture(self) -> Architecture:
        """MODEL, or the shape that the file spells out, or the model that it names.

        Raises:
            InputError: there is no such model.
        """
        from tonnage.arch import load

        if self.model is None and self.launch.architecture is not None:
            return self.launch.architecture
        if self.model is not None:
            return load(self.model)
        name = self.launch.model or ""
        try:
            return load(name)
        except InputError as error:
            raise type(error)(
                field="config",
                value=self.launch.kind,
                problem=f"file names the model {shorten(name)}, and {error.message}: give MODEL",
            ) from None

    def full(self, flags: ClusterFlags) -> ClusterFlags:
        """The flags of a cluster, with the number of devices that the file says.

        Raises:
            InputError: neither says how many devices of what.
        """
        if flags.cluster_file is not None:
            return flags
        count, device = self.launch.gpus, flags.gpus or self.launch.device
        if device is None and flags.device_file is None:
            raise _lacks(self.launch, "device", f"--gpus {count or 8}xH100")
        if flags.device_file is not None:
            text = flags.gpus or (str(count) if count else None)
        elif device is not None and (_COUNT.match(device) or _LIST.search(device)):
            text = device
        else:
            text = f"{count}x{device}" if count else None
        if text is None:
            raise _lacks(self.launch, "number of devices", f"--gpus 8x{device or 'DEVICE'}")
        return dataclasses.replace(flags, gpus=text)

    def settled(self, cluster: Cluster) -> Plan:
        """The plan on its cluster, with a micro-batch no larger than a rank's share.

        Args:
            cluster: where it runs.
        """
        plan, replicas = self.plan, cluster.gpus // (self.plan.tp * self.plan.pp * self.plan.cp)
        if not self.launch.shrinks or plan.gbs is None or not replicas:
            return plan
        share = plan.gbs // replicas
        if plan.gbs % replicas or not 0 < share < plan.mbs:
            return plan
        return dataclasses.replace(plan, mbs=share)

    def limits(self, flags: LimitFlags, device: str | None) -> Limits:
        """The limits of the flags, with the length of the run that the file says.

        Args:
            flags: the flags.
            device: whose price counts; None: no price.

        Raises:
            InputError: a flag has a value that stands for nothing.
        """
        tokens, steps = self.launch.tokens, self.launch.steps
        return flags.read(device, tokens=tokens, steps=None if tokens else steps)

    def account(self) -> dict[str, Any]:
        """What became of the file's keys, for ``--json``."""
        names = ("kind", "used", "ignored", "not_understood")
        return {name: getattr(self.launch, name) for name in names}

    def line(self) -> str:
        """What became of the file's keys, in a line."""
        launch = self.launch
        text = f"config: {launch.kind}, {len(launch.used)} keys used"
        if launch.ignored:
            text += f", {len(launch.ignored)} that change nothing here"
        if launch.not_understood:
            names = [shorten(name, 60) for name in launch.not_understood[:_SHOWN]]
            rest = len(launch.not_understood) - len(names)
            text += f"; not understood: {', '.join(names)}" + (f" and {rest} more" if rest else "")
        return text


def _lacks(launch: Launch, what: str, give: str) -> InputError:
    return InputError(
        field="config", value=launch.kind, problem=f"file names no {what}: give {give}"
    )


def count_of(gpus: str | None) -> int | None:
    """Devices that ``--gpus 8xH100`` counts; None where it names no number."""
    found = _COUNT.match(gpus or "")
    return int(found[1]) if found else None
