"""The formula behind a row of an estimate: with symbols, then with numbers.

Nothing is written twice: the functions that computed the row are run again on symbols.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tonnage.algebra import decided_by
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError, MissingPartError
from tonnage.estimation.symbols import Symbol, Symbols, symbolic_architecture, symbolic_setting
from tonnage.ledger import StageLedger, Tensor, Weight, saved_tensors, stage_ledgers
from tonnage.ledger.layer import recomputed_modules
from tonnage.ledger.model import whole, whole_stage
from tonnage.ledger.optimizer import state_bytes
from tonnage.memory import CATEGORIES, stage_memory
from tonnage.memory.states import parameter_bytes
from tonnage.plan import Plan, Resolved, Setting, Stage, resolve
from tonnage.quantity import format_bytes, format_flops

ROWS = (*CATEGORIES, "flops")
"""The rows that can be explained: the categories of memory, and FLOPs per sequence."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One term: its formula with symbols, the same with numbers, and the result."""

    name: str
    formula: str
    worked: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A row explained.

    Attributes:
        row: which.
        summary: what the total is, in words.
        symbols: what each letter stands for.
        lines: the terms that make up the total.
        total: the whole.
        notes: what the formula leaves out or takes for granted.
    """

    row: str
    summary: str
    symbols: tuple[Symbol, ...]
    lines: tuple[Line, ...]
    total: Line
    notes: tuple[str, ...]


def explain(
    architecture: Architecture, plan: Plan, cluster: Cluster, row: str, *, stage: int | None = None
) -> Explanation:
    """Explain one row of an estimate.

    Args:
        architecture: what is trained.
        plan: how.
        cluster: on what.
        row: one of `ROWS`.
        stage: the pipeline stage; None: the one with the highest peak.

    Raises:
        InputError: the row is unknown, or the plan impossible.
        MissingPartError: sympy is not installed.
    """
    if row not in ROWS:
        raise InputError(
            field="explain", value=row, problem="is not a row", accepted=", ".join(ROWS)
        )
    resolved = resolve(plan, architecture, cluster)
    formulas = _Formulas(resolved)
    if row == "flops":
        return _explain_flops(formulas)
    return _explain_memory(formulas, row, _telling_stage(resolved, row) if stage is None else stage)


def _telling_stage(resolved: Resolved, row: str) -> int:
    """The stage with the highest peak; where the row is nothing there, the one with most of it."""
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    peaks = [stage_memory(resolved.setting, ledger).peak for ledger in ledgers]
    worst = max(peaks, key=lambda peak: int(peak.allocated))
    if not worst.categories[row]:
        worst = max(peaks, key=lambda peak: int(peak.categories[row]))
    return peaks.index(worst)


class _Formulas:
    """A resolved plan in symbols, and the printing of what comes out of it."""

    def __init__(self, resolved: Resolved) -> None:
        try:
            import sympy
        except ImportError:
            raise MissingPartError(
                part="sympy", extra="explain", purpose="explaining a row"
            ) from None
        self.sympy: Any = sympy
        self.resolved = resolved
        self.symbols = Symbols(sympy)
        self.setting: Setting = symbolic_setting(resolved.setting, self.symbols)
        plain = resolved.setting.architecture.layers
        twin = dict(zip(plain, self.setting.architecture.layers, strict=True))
        self.stages: tuple[Stage, ...] = tuple(
            dataclasses.replace(
                stage, chunks=tuple(tuple(twin[layer] for layer in c) for c in stage.chunks)
            )
            for stage in resolved.stages
        )

    def line(self, name: str, expression: Any, unit: str, times: int = 1) -> Line:
        """One term, with a count of equal ones in front."""
        expression = self.sympy.sympify(expression)
        result = times * expression.xreplace(self.values())
        number = int(result) if result.is_integer else float(result)
        formula = _pretty(self.sympy.sstr(self.sympy.factor_terms(expression)))
        if times != 1:
            formula = f"{times} · ({formula})" if " " in formula else f"{times}·{formula}"
        value = format_bytes(number) if unit == "bytes" else format_flops(number)
        return Line(name=name, formula=formula, worked=self._worked(formula), value=value)

    def values(self) -> dict[Any, Any]:
        """Each symbol and what it stands for in this run."""
        return {
            self.sympy.Symbol(s.name, positive=True, integer=True): self.sympy.Integer(s.value)
            for s in self.symbols.table.values()
        }

    def _worked(self, formula: str) -> str:
        def number(match: re.Match[str]) -> str:
            symbol = self.symbols.table.get(match.group())
            return str(symbol.value) if symbol else match.group()

        return re.sub(r"[A-Za-z][A-Za-z_]*'*", number, formula)

    def used(self, lines: Iterable[Line]) -> tuple[Symbol, ...]:
        """The symbols that some formulas use, in alphabetical order."""
        text = " ".join(line.formula for line in lines)
        names = set(re.findall(r"[A-Za-z][A-Za-z_]*'*", text))
        return tuple(s for name, s in sorted(self.symbols.table.items()) if name in names)


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _pretty(text: str) -> str:
    """Sympy's text as people write formulas: ``2·s·b·h``, ``s²``, ``ceil``, ``min``."""
    text = re.sub(r"\*\*(\d+)", lambda m: m.group(1).translate(_SUPERSCRIPTS), text)
    text = text.replace("*", "·").replace("ceiling(", "ceil(")
    return text.replace("Min(", "min(").replace("Max(", "max(")


def _explain_memory(formulas: _Formulas, row: str, index: int) -> Explanation:
    setting = formulas.setting
    if not 0 <= index < len(formulas.stages):
        raise InputError(
            field="stage",
            value=index,
            problem="is not a pipeline stage",
            accepted=f"0 to {len(formulas.stages) - 1}",
        )
    numeric = formulas.resolved
    memory = stage_memory(numeric.setting, stage_ledgers(numeric.setting, numeric.stages)[index])
    with decided_by(formulas.values()):
        ledger = stage_ledgers(setting, formulas.stages)[index]
        instant = stage_memory(setting, ledger).instants[memory.instants.index(memory.peak)]
        lines = tuple(_terms(formulas, ledger, row))
    total = formulas.line(row, instant.categories[row], "bytes")
    return Explanation(
        row=row,
        summary=f"bytes on one rank of pipeline stage {index} at its peak ({instant.when})",
        symbols=formulas.used((*lines, total)),
        lines=lines,
        total=total,
        notes=(_NOTES[row],),
    )


_NOTES = {
    "parameters": "the terms are the weights before ZeRO divides them",
    "master_weights": "the terms are the weights' elements in the recipe's master format",
    "gradients": "the terms are the weights' elements in the recipe's gradient formats",
    "optimizer_states": "the terms are the states before ZeRO divides them",
    "activations": "the terms are what one micro-batch leaves on one layer; the total counts "
    "layers and micro-batches in flight, or the checkpoints that recomputation leaves",
    "logits_and_loss": "copies of the logits, by the rule of the runtime's loss",
    "communication_buffers": "buffers of the parallel axes that this plan uses",
    "temporaries": "library workspaces, placeholders, and what the instant itself needs",
}


def _terms(formulas: _Formulas, ledger: StageLedger, row: str) -> Iterable[Line]:
    """What a total is made of, where it is made of things with names."""
    if row == "activations":
        for layer, operations in ledger.layers.items():
            count = ledger.stage.kinds()[layer]
            label = f"{count} layers" if count > 1 else "1 layer"
            for tensor in saved_tensors(operations, recomputed_modules(formulas.setting)):
                yield formulas.line(f"{tensor.name} (each of {label})", tensor.bytes, "bytes")
    elif row in ("parameters", "master_weights", "gradients", "optimizer_states"):
        for weight, count in ledger.weights():
            size = _state(formulas.setting, weight, row)
            if size != 0:
                yield formulas.line(weight.name, size, "bytes", count)


def _state(setting: Setting, weight: Weight, row: str) -> Any:
    """Bytes of one weight in one category, unsharded: the states of a stage of that weight."""
    recipe = setting.precision
    if row == "parameters":
        return parameter_bytes(setting, weight)
    if not weight.trains:
        return 0
    if row == "optimizer_states":
        return state_bytes(setting, weight)
    formats = (
        (recipe.master,) if row == "master_weights" else (recipe.gradients, recipe.accumulation)
    )
    return sum(
        Tensor(name=weight.name, elements=weight.numel, format=role).bytes
        for role in formats
        if role
    )


def _explain_flops(formulas: _Formulas) -> Explanation:
    numeric = formulas.resolved.setting
    # Model FLOPs count the vocabulary as the model has it, without a runtime's padding.
    formulas.symbols = Symbols(formulas.sympy)
    architecture = symbolic_architecture(numeric.architecture, formulas.symbols)
    seq = formulas.symbols.of("s", "tokens in a sequence", int(numeric.seq))
    alone = dataclasses.replace(whole(architecture, numeric.plan, seq=seq), causal=False)
    (ledger,) = stage_ledgers(alone, (whole_stage(architecture),))
    counts = ledger.stage.kinds()
    terms = [
        (op, counts[layer]) for layer, operations in ledger.layers.items() for op in operations
    ]
    terms += [(op, 1) for op in (*ledger.embedding, *ledger.head)]
    lines = tuple(
        formulas.line(op.name, op.flops + op.flops_backward, "flops", count)
        for op, count in terms
        if op.flops != 0
    )
    everything = sum(count * (op.flops + op.flops_backward) for op, count in terms)
    total = formulas.line("flops", everything, "flops")
    return Explanation(
        row="flops",
        summary="model FLOPs of one sequence, forward and backward, over all ranks",
        symbols=formulas.used((*lines, total)),
        lines=lines,
        total=total,
        notes=(
            "backward costs twice forward: once for the inputs' gradients, once for the weights'",
            "the whole square of attention is counted; causal attention needs half of it",
        ),
    )
