"""The command that starts a plan with ``tonnage train``.

The verb is not in this version, so the command says so. Its flags are those of every verb that
takes a plan, made from the fields of a plan by `flag_words`, so that they cannot drift.
"""

from __future__ import annotations

import os
import shlex

from tonnage.arch import catalog
from tonnage.formats.told import Told
from tonnage.plan.words import changed_fields, flag_words

NOT_YET = "tonnage train is not in this version of Tonnage: the command is for one that has it"


def write(told: Told) -> str:
    """A ``torchrun`` command line, with the fields of the plan as flags."""
    fields = changed_fields(told.plan)
    for name in (*fields, "habits"):
        told.take(name)
    for name, _ in told.plan.habits:
        told.habit(name)
    told.warn(NOT_YET)
    launcher = ["torchrun", "--nnodes", str(told.nodes), "--nproc-per-node", str(told.per_node)]
    command = ["-m", "tonnage", "train", _model(told), *flag_words(fields)]
    if told.steps is not None:
        command += ["--steps", str(told.steps)]
    return f"# {NOT_YET}.\n{shlex.join([*launcher, *command])}\n"


def _model(told: Told) -> str:
    """What a verb finds the model by: its name, or its file."""
    name, source = told.architecture.name, told.architecture.source
    if catalog.find(name) is not None:
        return name
    if os.path.exists(source):
        return source
    if source.startswith("https://"):
        return name
    told.warn(f"{name} has no name that a verb finds: put its config.json there")
    return name
