"""The command that starts a plan with ``tonnage train``."""

from __future__ import annotations

import shlex

from tonnage.formats.told import Told
from tonnage.plan.words import changed_fields, flag_words


def write(told: Told) -> str:
    """A ``torchrun`` command line, with the fields of the plan as flags."""
    fields = changed_fields(told.plan)
    for name in (*fields, "habits"):
        told.take(name)
    for name, _ in told.plan.habits:
        told.habit(name)
    launcher = ["torchrun", "--nnodes", str(told.nodes), "--nproc-per-node", str(told.per_node)]
    command = ["-m", "tonnage", "train", told.architecture.name, *flag_words(fields)]
    if told.steps is not None:
        command += ["--steps", str(told.steps)]
    return shlex.join([*launcher, *command]) + "\n"
