"""What every plan of a search shares, where files say more than that.

A launch file or a plan file is one plan. A search takes from it what plans of one training share
(runtime, batch, sequence, formats, optimizer, habits) and chooses its knobs itself, unless flags
keep it to some.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tonnage.cli.run import Run
from tonnage.errors import InputError
from tonnage.plan import Plan, resolve
from tonnage.plan.words import changed_fields, flag_words

if TYPE_CHECKING:
    from tonnage.estimation import Estimate
    from tonnage.search import Question

_OF_ONE_LAYOUT = ("pipeline_layout", "microbatch_group", "recompute_per_stage")
"""Fields that are no knobs and mean something beside one layout of stages only."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What a search takes from a file.

    Attributes:
        base: what all plans share.
        taken: the fields of it that are not blank.
        left: what the file says of the knobs, which are chosen anew.
        own: the file's plan, with as many replicas as there is room for.
        line: what became of a launch file's keys; None for a plan file.
        account: the same for ``--json``; None likewise.
    """

    base: Plan
    taken: dict[str, Any]
    left: dict[str, Any]
    own: Plan
    line: str | None
    account: dict[str, Any] | None

    @classmethod
    def of(cls, run: Run) -> Shared:
        """What the plans of a search share with the plan of a command line and its files.

        Raises:
            InputError: neither says how large the batch is, or the plan that says it cannot run.
        """
        from tonnage.search import KNOBS

        usual, own = Plan(), run.plan
        apart = (*KNOBS, *_OF_ONE_LAYOUT)
        blank = {name: getattr(usual, name) for name in apart}
        base = dataclasses.replace(own, **blank)
        if own.gbs is None and own.grad_acc is not None:
            base = dataclasses.replace(base, gbs=batch_of(run))
        changed = changed_fields(own)
        configured = run.configured
        return cls(
            base=base,
            taken=changed_fields(base),
            left={name: changed[name] for name in apart if name in changed},
            own=dataclasses.replace(own, dp=None, grad_acc=None, gbs=base.gbs),
            line=None if configured is None else configured.line(),
            account=None if configured is None else configured.account(),
        )

    def lines(self) -> list[str]:
        """What is taken and what is left, in lines."""
        taken, left = " ".join(flag_words(self.taken)), " ".join(flag_words(self.left))
        lines = [] if self.line is None else [self.line]
        lines.append(f"taken for every plan: {taken or 'nothing'}")
        if left:
            lines.append(f"searched, and not kept to: {left}")
        return lines

    def weigh(self, question: Question) -> Estimate | InputError:
        """The file's own plan on the first of the clusters, beside what was found."""
        from tonnage.estimation import estimate

        where = question.clusters[0]
        try:
            return estimate(question.architecture, self.own, where, question.limits_on(where))
        except InputError as error:
            return error

    def to_dict(self, own: Estimate | InputError) -> dict[str, Any]:
        """The same as JSON takes it."""
        told = (
            {"own": None, "refused": own.message}
            if isinstance(own, InputError)
            else {"own": own.to_dict(), "refused": None}
        )
        return {**(self.account or {}), "taken": self.taken, "searched": self.left, **told}


def batch_of(run: Run) -> int:
    """Sequences in a step of a plan that says how many micro-batches a rank has.

    On as many GPUs as its file names, where it names any.

    Raises:
        InputError: it cannot run there.
    """
    gpus = None if run.configured is None else run.configured.launch.gpus
    try:
        where = run.cluster if gpus is None else run.cluster.override(gpus=gpus)
        return resolve(run.plan, run.architecture, where).plan.gbs or 1
    except InputError as error:
        raise InputError(
            field="gbs",
            value="",
            problem=f"is missing, and the file's plan does not say it here: {error.message}",
            accepted="--gbs, sequences in a step over all ranks",
        ) from None


def freed(run: Run, given: Mapping[str, object]) -> Plan:
    """The plan of a file without what follows from the number of GPUs, its batch kept.

    Args:
        run: what a command line and its files say.
        given: fields that flags set: they stay as they are.

    Raises:
        InputError: as `batch_of`.
    """
    loose = [name for name in ("dp", "grad_acc") if name not in given]
    changes: dict[str, Any] = dict.fromkeys(loose)
    if run.plan.gbs is None and run.plan.grad_acc is not None and "grad_acc" in changes:
        changes["gbs"] = batch_of(run)
    return dataclasses.replace(run.plan, **changes)
