"""Measured rows: read from CSV files that nobody has checked."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tonnage.errors import InputError, TonnageError
from tonnage.files import read_bounded

LARGEST_FILE = 64 * 2**20
LARGEST_FIELD = 16_384
LARGEST_ROWS = 200_000
LARGEST_COUNT = 10**9
LARGEST_DEPTH = 10_000
"""Layers of a model: its layer list is really made."""

ARCHITECTURE = (
    "model layers hidden heads kv_heads head_dim ffn ffn_gated vocab seq_len tied_embed "
    "n_params_b n_active_params_b experts topk moe_ffn shared_expert_ffn dense_layers arch_note"
).split()
CLUSTER = "gpu gpu_mem_gb num_gpus gpus_per_node interconnect".split()
PLAN = "dp tp pp vpp cp ep etp sp zero mbs gbs grad_acc".split()
RECIPE = (
    "framework fw_version task precision grad_reduce_dtype optimizer recompute attention compile "
    "lora_rank lora_targets quant extra"
).split()
ASKED = "counter scope iteration".split()

INPUT_COLUMNS = frozenset((*ARCHITECTURE, *CLUSTER, *PLAN, *RECIPE, *ASKED))
"""All that a prediction may read. Everything else is the answer, or about it."""

REQUIRED = ("layers", "hidden", "heads", "vocab", "seq_len", "gpu")
"""The least that a file must have; the other columns have the defaults that docs/how-to
names."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured run.

    Attributes:
        family: the stem of the file it came from.
        line: its line in that file, the header being 1.
        cells: its cells by column, stripped; empty ones left out.
    """

    family: str
    line: int
    cells: Mapping[str, str]

    @property
    def name(self) -> str:
        """What to call it: its id, or where it stands."""
        return self.cells.get("id") or f"{self.family}:{self.line}"

    def inputs(self) -> Row:
        """The row with everything blanked that a prediction may not read."""
        kept = {name: cell for name, cell in self.cells.items() if name in INPUT_COLUMNS}
        return Row(family=self.family, line=self.line, cells=kept)

    def text(self, column: str) -> str:
        """A cell in lower case; empty where there is none."""
        return self.cells.get(column, "").lower()

    def number(self, column: str) -> float | None:
        """A cell as a finite number, or None where it is empty.

        Raises:
            InputError: it is something else.
        """
        cell = self.cells.get(column)
        if cell is None:
            return None
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or abs(value) > 1e18:
            raise InputError(
                field=f"{self.name}.{column}",
                value=cell,
                problem="is not a number",
                accepted="a finite number, or an empty cell",
            )
        return value

    def measured(self, column: str) -> float | None:
        """A measured figure over 0; None where the cell is anything else."""
        try:
            value = self.number(column)
        except InputError:
            return None
        return value if value and value > 0 else None

    def count(self, column: str, default: int | None = None, most: int = LARGEST_COUNT) -> int:
        """A cell as a whole number from 1 to ``most``.

        Raises:
            InputError: it is something else, or empty without a default.
        """
        value = self.number(column)
        if value is None and default is not None:
            return default
        if value is None or not 1 <= value <= most or value != int(value):
            raise InputError(
                field=f"{self.name}.{column}",
                value=self.cells.get(column, ""),
                problem="is not a whole number in range",
                accepted=f"1 to {most}",
            )
        return int(value)

    def flag(self, column: str, default: bool) -> bool:
        """A cell as yes or no."""
        cell = self.text(column)
        return default if not cell else cell in ("1", "1.0", "true", "yes")


def read_rows(path: Path) -> tuple[Row, ...]:
    """The rows of one CSV file.

    Raises:
        InputError: it is not there, too large, not CSV, or lacks a required column.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(
                field=str(path),
                value=f"{path.stat().st_size} bytes",
                problem="is too large",
                accepted=f"up to {LARGEST_FILE} bytes",
            )
        content = read_bounded(str(path), LARGEST_FILE).decode("utf-8")
        return _parse(path, csv.DictReader(io.StringIO(content, newline="")))
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, TonnageError):
            raise
        raise InputError(
            field="FILE",
            value=str(path),
            problem=f"cannot be read: {error}",
            accepted="a CSV file in UTF-8",
        ) from None


def _parse(path: Path, reader: csv.DictReader[str]) -> tuple[Row, ...]:
    csv.field_size_limit(LARGEST_FIELD)
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            field=str(path),
            value=", ".join(missing),
            problem="is missing from the header",
            accepted=f"at least the columns {', '.join(REQUIRED)}",
        )
    names = [name for name in reader.fieldnames or () if name]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            field=str(path),
            value=", ".join(twice),
            problem="stands twice in the header",
            accepted="each column once",
        )
    rows: list[Row] = []
    for number, cells in enumerate(reader, start=2):
        if len(rows) >= LARGEST_ROWS:
            raise InputError(
                field=str(path),
                value=f"more than {LARGEST_ROWS} rows",
                problem="is too long",
                accepted=f"up to {LARGEST_ROWS} rows",
            )
        if None in cells or any(cell is None for cell in cells.values()):
            raise InputError(
                field=f"{path}:{number}",
                value=len(cells),
                problem="has not as many cells as the header",
                accepted=f"{len(reader.fieldnames or ())} cells",
            )
        kept = {name: cell.strip() for name, cell in cells.items() if cell.strip()}
        rows.append(Row(family=path.stem, line=number, cells=kept))
    return tuple(rows)
