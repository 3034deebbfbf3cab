"""What single pieces of a model weigh, worked out once for all plans of a search.

What a layer computes, keeps and sends follows from six of a plan's numbers. A search meets the
same few thousand values of those six under thousands of pipelines, recomputation depths and
batches. So rules that look at one piece alone (`tonnage.ledger.piece`) are worked out over a
table of the distinct values, a row each, and a plan looks its row up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import Number, is_array
from tonnage.arch import Architecture, Layer
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.model import embedding_piece, head_piece, layer_piece, vision_piece
from tonnage.ledger.mtp import NO_PREDICTORS, predictors
from tonnage.ledger.piece import Piece
from tonnage.plan import Plan, Setting, Stage
from tonnage.runtime import OFFLOADS

Column: TypeAlias = NDArray[np.int64]

DECIDING: Final = {"tp": 10, "cp": 10, "ep": 10, "etp": 8, "mbs": 12, "seq": 13}
"""The numbers that decide what a piece is, and the bits that tell their values apart."""

OUTSIDE: Final = (
    *("tp", "cp", "ep", "etp", "dp", "mbs", "gbs", "grad_acc", "seq", "hsdp_shard"),
    *("pp", "vpp", "schedule", "first_stage_layers", "last_stage_layers", "pipeline_layout"),
    *("account_for_embedding", "account_for_loss", "iteration"),
    *("recompute_method", "recompute_num_layers"),
    *OFFLOADS,
)
"""Fields of a plan that no rule of a single piece reads: those that lay out the pipeline, group
its layers, count its steps or say what lies on the host, and the numbers, which a rule takes from
the setting."""

SHEETS: Final = 64
"""Choices whose answers are kept: a few megabytes each for a model with experts."""

BLANK: Final = Plan()

Name: TypeAlias = Layer | str
"""A piece: a kind of layer, or an end of the model."""

Choices: TypeAlias = tuple[Any, ...]
Rule: TypeAlias = Callable[..., Any]


class Table:
    """Rows of distinct deciding numbers, and what pieces of one model are worth on each.

    Rows are added by pages; an answer is worked out page by page, when it is first asked for.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._values: dict[str, Column] = {name: np.empty(0, np.int64) for name in DECIDING}
        self._marks: dict[str, Column] = dict(self._values)
        self._codes = np.empty(0, np.int64)
        self._places = np.empty(0, np.intp)
        self.pages: list[dict[str, Number]] = []
        self.lengths: list[int] = []
        self._sheets: dict[Choices, Sheet] = {}

    def rows(self, columns: Mapping[str, Number]) -> Number:
        """The row of every plan, added where it is new; one row where no column varies."""
        code: Number = 0
        for name, bits in DECIDING.items():
            code = (code << bits) + self._mark(name, columns[name])
        wanted = np.atleast_1d(np.asarray(code))
        at = self._find(wanted)
        fresh = self._codes[at] != wanted if len(self._codes) else np.ones(wanted.shape, bool)
        if fresh.any():
            self._add(columns, wanted, fresh)
            at = self._find(wanted)
        found = self._places[at]
        return found if is_array(code) else int(found[0])

    def sheet(self, setting: Setting, ignores: tuple[str, ...]) -> Sheet:
        """The answers under the choices of a setting, as far as rules read them."""
        default = {name: getattr(BLANK, name) for name in (*OUTSIDE, *ignores)}
        plan = dataclasses.replace(setting.plan, **default)
        names = ("runtime", "precision", "optimizer", "sp", "zero", "device", "causal")
        key = (plan, *(getattr(setting, name) for name in names))
        if key not in self._sheets:
            shared = dataclasses.replace(setting, plan=plan, shard=1, grad_acc=1)
            self._sheets[key] = Sheet(self, shared)
            if len(self._sheets) > SHEETS:
                del self._sheets[next(iter(self._sheets))]
        return self._sheets[key]

    def _find(self, wanted: Column) -> NDArray[np.intp]:
        """Where codes are, or would be, among those that are known."""
        return np.minimum(np.searchsorted(self._codes, wanted), max(len(self._codes) - 1, 0))

    def _mark(self, name: str, column: Number) -> Number:
        """A small number for each value of a field."""
        values = self._values[name]
        at = np.minimum(np.searchsorted(values, column), max(len(values) - 1, 0))
        new = values[at] != column if len(values) else np.ones(np.shape(column), bool)
        if np.any(new):
            more = np.unique(np.asarray(column)[new])
            self._learn(name, more)
            return self._mark(name, column)
        return self._marks[name][at]

    def _learn(self, name: str, more: Column) -> None:
        known = len(self._values[name])
        if known + len(more) > 1 << DECIDING[name]:
            message = f"more than {1 << DECIDING[name]} values of {name} in one search"
            raise ValueError(message)
        values = np.concatenate((self._values[name], more))
        marks = np.concatenate((self._marks[name], np.arange(known, known + len(more))))
        order = np.argsort(values)
        self._values[name], self._marks[name] = values[order], marks[order]

    def _add(self, columns: Mapping[str, Number], codes: Column, fresh: NDArray[np.bool_]) -> None:
        """A page of the rows that are not known yet."""
        chosen = np.flatnonzero(fresh)
        new, first = np.unique(codes[chosen], return_index=True)
        picked = chosen[first]
        page = {
            name: single(np.broadcast_to(columns[name], codes.shape)[picked]) for name in DECIDING
        }
        known = sum(self.lengths)
        self.pages.append(page)
        self.lengths.append(len(new))
        codes = np.concatenate((self._codes, new))
        places = np.concatenate((self._places, np.arange(known, known + len(new))))
        order = np.argsort(codes)
        self._codes, self._places = codes[order], places[order]


class Sheet:
    """The answers of all pieces under some choices.

    Attributes:
        pieces: operations of each piece, page by page.
    """

    def __init__(self, table: Table, setting: Setting) -> None:
        self._table = table
        self._setting = setting
        self._settings: list[Setting] = []
        self.pieces: dict[Name, list[Operations]] = {}
        self._answers: dict[Any, tuple[list[Any], Any]] = {}

    def operations(self, name: Name) -> list[Operations]:
        """A piece on every page."""
        pages = self._table.pages
        for page in pages[len(self._settings) :]:
            # No rule reads replicas, but the grid that it takes its axes from must be whole.
            dp = page["ep"] * page["etp"]
            self._settings.append(self._setting.columns(**page, dp=dp))
        held = self.pieces.setdefault(name, [])
        held += [_operations(setting, name) for setting in self._settings[len(held) :]]
        return held

    def answer(self, name: Name, rule: Rule, args: tuple[Any, ...]) -> Any:
        """What a rule says of a piece, row by row; one value where all rows agree."""
        key = (name, rule, args)
        found, joined = self._answers.get(key, ([], None))
        missing = len(self._table.pages) - len(found)
        if missing:
            pieces = self.operations(name)
            for page in range(len(found), len(pieces)):
                found.append(rule(self._settings[page], pieces[page], *args))
            joined = _joined(found, self._table.lengths)
            self._answers[key] = (found, joined)
        return joined


class View:
    """The pieces of a model as the plans of one column see them."""

    def __init__(self, table: Table, setting: Setting, rows: Number) -> None:
        self._table = table
        self._setting = setting
        self._rows = rows
        self._sheets: dict[tuple[str, ...], Sheet] = {}
        self._seen: dict[Any, Any] = {}
        self._pieces: dict[Name, Seen] = {}

    def ledger(self, stage: Stage, *, alone: bool) -> StageLedger:
        """A stage's ledger; ``alone`` where it is the whole pipeline."""
        ending = "head" if alone else "head with its own table"
        tower = self._setting.architecture.vision
        return StageLedger(
            stage=stage,
            layers={layer: self._piece(layer) for layer in stage.kinds()},
            embedding=self._piece("embedding") if stage.embedding else (),
            head=self._piece(ending) if stage.head else (),
            vision=self._piece("vision") if tower and stage.embedding else (),
            # Few plans train any: theirs are worked out plan by plan, and looked up nowhere.
            predictors=predictors(self._setting, apart=not alone) if stage.head else NO_PREDICTORS,
        )

    def look(self, name: Name, rule: Rule, ignores: tuple[str, ...], args: tuple[Any, ...]) -> Any:
        """What a rule says of a piece, plan by plan."""
        key = (name, rule, args)
        if key not in self._seen:
            self._seen[key] = taken(self._sheet(ignores).answer(name, rule, args), self._rows)
        return self._seen[key]

    def _sheet(self, ignores: tuple[str, ...]) -> Sheet:
        if ignores not in self._sheets:
            self._sheets[ignores] = self._table.sheet(self._setting, ignores)
        return self._sheets[ignores]

    def _piece(self, name: Name) -> Seen:
        if name not in self._pieces:
            piece = Seen(self._sheet(()).operations(name)[0])
            piece.name, piece.view = name, self
            self._pieces[name] = piece
        return self._pieces[name]


class Seen(Piece):
    """A piece that looks up what it is asked."""

    name: Name
    view: View

    def answer(self, rule: Rule, ignores: tuple[str, ...], args: tuple[Any, ...]) -> Any:
        """What a rule says of it, plan by plan."""
        return self.view.look(self.name, rule, ignores, args)


def _operations(setting: Setting, name: Name) -> Operations:
    if isinstance(name, Layer):
        return layer_piece(setting, name)
    if name == "embedding":
        return embedding_piece(setting)
    if name == "vision":
        return vision_piece(setting)
    return head_piece(setting, owns_tied_table=name != "head")


def single(column: Number) -> Number:
    """A column that is the same everywhere as one number."""
    if is_array(column) and column.size and (column == column[0]).all():
        return column[0].item()
    return column


def taken(value: Any, rows: Number) -> Any:
    """The rows of an answer: of an array, or of all arrays in a dataclass or a dictionary."""
    if is_array(value):
        found = value[rows]
        return found if is_array(found) else found.item()
    return _each(lambda parts: taken(parts[0], rows), [value])


def _joined(pages: Sequence[Any], lengths: Sequence[int]) -> Any:
    """One answer from those of the pages."""
    plain = isinstance(pages[0], dict) or dataclasses.is_dataclass(pages[0])
    if plain:
        return _each(lambda parts: _joined(parts, lengths), pages)
    wide = [np.broadcast_to(page, length) for page, length in zip(pages, lengths, strict=False)]
    return single(np.concatenate(wide))


def _each(rule: Callable[[list[Any]], Any], values: Sequence[Any]) -> Any:
    """A rule on the parts of values that are built alike; the value itself where it has none."""
    first = values[0]
    if isinstance(first, dict):
        columns = zip(*(value.values() for value in values), strict=True)
        return {key: rule(list(parts)) for key, parts in zip(first, columns, strict=True)}
    if not dataclasses.is_dataclass(first) or isinstance(first, type):
        return first
    names = [field.name for field in dataclasses.fields(first)]
    return type(first)(**{n: rule([getattr(value, n) for value in values]) for n in names})
