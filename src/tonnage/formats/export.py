"""A plan as the file or command that another tool is launched with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.formats.same_model import differences
from tonnage.formats.told import Told
from tonnage.plan import Plan
from tonnage.plan.nouns import check_nouns
from tonnage.plan.resolve import resolve
from tonnage.runtime import RUNTIMES


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that plans are written for.

    Attributes:
        name: what ``--export`` calls it.
        summary: what is written.
        runtimes: the stacks that it is, the usual one first.
        module: of the writer, which has ``write(Told) -> str``.
    """

    name: str
    summary: str
    runtimes: tuple[str, ...]
    module: str

    def runtime(self, asked: str | None) -> str:
        """The runtime of a plan that is written for the tool.

        Args:
            asked: what the person names, or None.

        Raises:
            InputError: the tool is another stack.
        """
        if asked is None or asked in self.runtimes:
            return asked or self.runtimes[0]
        raise InputError(
            field="runtime",
            value=asked,
            problem=f"is not what --export {self.name} is written for",
            accepted=" or ".join(self.runtimes),
        )


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written.

    Attributes:
        text: the file or command.
        warnings: what the tool lacks, or cannot be told, in sentences.
    """

    text: str
    warnings: tuple[str, ...]


def _tool(name: str, summary: str, *runtimes: str) -> Tool:
    return Tool(
        name=name, summary=summary, runtimes=runtimes, module=f"tonnage.formats.write.{name}"
    )


ACCELERATE = ("accelerate", "accelerate-fsdp2", "deepspeed", "ddp", "transformers", "megatron")
"""What accelerate starts."""

_TOOLS = (
    _tool("megatron", "a shell script for Megatron-LM", "megatron", "megatron-fsdp"),
    _tool("mindspeed", "a shell script for MindSpeed-LLM", "mindspeed"),
    _tool("nanotron", "nanotron's YAML", "nanotron"),
    _tool("torchtitan", "torchtitan's TOML (0.2)", "fsdp2", "ddp"),
    _tool("deepspeed", "DeepSpeed's JSON", "deepspeed"),
    _tool("accelerate", "accelerate's YAML", *ACCELERATE),
    _tool("torchrun", "a torchrun command of tonnage train", *RUNTIMES),
)

EXPORTS: dict[str, Tool] = {tool.name: tool for tool in _TOOLS}


def tool(name: str) -> Tool:
    """The tool of a name.

    Raises:
        InputError: there is none.
    """
    key = name.strip().lower()
    if key in EXPORTS:
        return EXPORTS[key]
    raise InputError(
        field="export",
        value=name,
        problem="is not a tool that plans are written for",
        accepted=", ".join(EXPORTS),
    )


def export(
    kind: str,
    architecture: Architecture,
    plan: Plan,
    cluster: Cluster,
    *,
    steps: int | None = None,
) -> Exported:
    """Write a plan for a tool; reading it back with `read_launch` gives the same plan.

    Args:
        kind: the tool, one of `EXPORTS`.
        architecture: what is trained.
        plan: how; its runtime must be one of the tool's.
        cluster: where.
        steps: optimizer steps of the run, where they are known.

    Raises:
        InputError: the plan is impossible, or asks for what the tool cannot be told.
        NotModelledError: it asks for what is not accounted for.
    """
    check_nouns(architecture=architecture, plan=plan, cluster=cluster)
    chosen = tool(kind)
    chosen.runtime(plan.runtime)
    resolved = resolve(plan, architecture, cluster).plan
    told = Told(
        kind=chosen.name,
        architecture=architecture,
        plan=resolved,
        given=plan,
        cluster=cluster,
        steps=steps,
    )
    write: Callable[[Told], str] = import_module(chosen.module).write
    text = write(told)
    told.finish()
    _hold_to_the_model(told, text)
    return Exported(text=text, warnings=tuple(told.warnings))


SPELLS_OUT = {"megatron": "sh", "mindspeed": "sh", "nanotron": "yaml", "torchtitan": "toml"}
"""Tools whose file says what the model is, and how such a file is called."""


def _hold_to_the_model(told: Told, text: str) -> None:
    """Read the file back: whatever of the model it does not say is a warning."""
    if told.kind not in SPELLS_OUT:
        return
    from tonnage.formats.kinds import KINDS
    from tonnage.formats.text import parse_document

    document = parse_document(f"x.{SPELLS_OUT[told.kind]}", text)
    theirs = KINDS[told.kind].read(document).architecture
    if theirs is None:
        told.warn(f"{told.kind} cannot be told this model", "*")
        return
    found = differences(told.architecture, theirs, told.explained)
    if found:
        told.warn(f"{told.kind} is told another model: {'; '.join(found)}")


OF_A_STACK = (
    *("habits", "precision", "loss", "optimizer_step", "zero"),
    *("overlap_grad_reduce", "overlap_param_gather"),
)
"""Fields whose values mean little on another stack."""


def for_tool(kind: str, plan: Plan, given: Mapping[str, object]) -> tuple[Plan, tuple[str, ...]]:
    """The plan on the stack of a tool, and the fields that are left to that stack.

    Args:
        kind: the tool.
        plan: the plan.
        given: what the person asks for beside any file.

    Raises:
        InputError: there is no such tool, or the person asks for another stack.
    """
    asked = given.get("runtime")
    chosen = tool(kind)
    if asked is None and plan.runtime in chosen.runtimes:
        return plan, ()
    runtime = chosen.runtime(None if asked is None else str(asked))
    if runtime == plan.runtime:
        return plan, ()
    usual = Plan()
    blank = {
        name: getattr(usual, name)
        for name in OF_A_STACK
        if name not in given and getattr(plan, name) != getattr(usual, name)
    }
    return dataclasses.replace(plan, runtime=runtime, **blank), tuple(blank)
