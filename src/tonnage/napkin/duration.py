"""How long a training run takes: 6·N·D over the rate of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.dtype import dtype as number_format
from tonnage.errors import InputError
from tonnage.ledger import parameters, sequence_flops, whole, whole_stage
from tonnage.plan.resolve import default_seq
from tonnage.plan.values import positive
from tonnage.quantity import (
    LARGEST,
    format_count,
    format_flops,
    format_percent,
    format_rate,
    format_seconds,
)

SECONDS_PER_DAY = 86_400.0

LEAST_MFU = 1e-6
"""A run slower than this is a typing error, and its time could overflow."""


@dataclass(frozen=True, kw_only=True)
class LedgerTime:
    """The same run by the ledger's count of FLOPs, under one convention of attention.

    Attributes:
        convention: ``causal`` counts the half of the scores that the mask leaves, ``full``
            the whole square.
        flops: FLOPs of all tokens, forward and backward.
        seconds: their time at the same rate.
    """

    convention: str
    flops: float
    seconds: float

    @property
    def days(self) -> float:
        """The time in days."""
        return self.seconds / SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True)
class TrainTime:
    """How long a training run takes, by 6·N·D.

    Attributes:
        parameters: N, those that one token meets.
        tokens: D.
        gpus: devices.
        peak_flops: dense FLOP/s of one device in the number format asked for.
        mfu: model FLOPs utilisation, 0 to 1.
        flops: 6·N·D.
        seconds: the time of the run.
        seq: tokens in a sequence, which the ledger's count depends on; None without it.
        corrected: the ledger's count, causal and then full; empty without an architecture.
        formula: the arithmetic in symbols.
        worked: the arithmetic in numbers.
        caveats: what the arithmetic leaves out, in sentences.
    """

    parameters: float
    tokens: float
    gpus: int
    peak_flops: float
    mfu: float
    flops: float
    seconds: float
    seq: int | None
    corrected: tuple[LedgerTime, ...]
    formula: str
    worked: str
    caveats: tuple[str, ...]

    @property
    def days(self) -> float:
        """The time in days."""
        return self.seconds / SECONDS_PER_DAY

    @property
    def gpu_hours(self) -> float:
        """Hours of all devices together."""
        return self.gpus * self.seconds / 3600.0

    def to_json(self) -> dict[str, object]:
        """Plain values: FLOPs, seconds, days and GPU-hours."""
        corrected = {
            entry.convention: {"flops": entry.flops, "seconds": entry.seconds, "days": entry.days}
            for entry in self.corrected
        }
        return {
            "flops": self.flops,
            "seconds": self.seconds,
            "days": self.days,
            "gpu_hours": self.gpu_hours,
            "parameters": self.parameters,
            "tokens": self.tokens,
            "gpus": self.gpus,
            "peak_flops": self.peak_flops,
            "mfu": self.mfu,
            "seq": self.seq,
            "corrected": corrected or None,
            "formula": self.formula,
            "worked": self.worked,
            "caveats": list(self.caveats),
        }


def train_time(
    params: float | None,
    tokens: float,
    cluster: Cluster,
    mfu: float,
    *,
    dtype: str = "bf16",
    architecture: Architecture | None = None,
    seq: int | None = None,
) -> TrainTime:
    """How long ``tokens`` take to train on, at a given share of the cluster's peak.

    Args:
        params: parameters, N; None: those of the architecture that one token meets (all
            of them without experts).
        tokens: tokens of the whole run, D.
        cluster: the devices.
        mfu: model FLOPs utilisation, above 0 and at most 1.
        dtype: the number format whose dense peak counts.
        architecture: the model, for the ledger's count beside 6·N·D.
        seq: tokens in a sequence for that count; None: as `resolve` fills it in.

    Raises:
        InputError: a value makes no sense; the error names the parameter.
    """
    count = _parameters(params, architecture)
    _check_size("tokens", tokens)
    _check_mfu(mfu)
    peak = cluster.device.peak_flops(dtype)
    rate = cluster.gpus * peak * mfu
    flops = 6.0 * count * tokens
    length = _sequence(architecture, seq)
    return TrainTime(
        parameters=count,
        tokens=tokens,
        gpus=cluster.gpus,
        peak_flops=peak,
        mfu=mfu,
        flops=flops,
        seconds=flops / rate,
        seq=length,
        corrected=_by_ledger(architecture, length, tokens, rate),
        formula="FLOPs = 6 · N · D; seconds = FLOPs / (GPUs · peak · MFU)",
        worked=(
            f"6 × {format_count(count)} × {format_count(tokens)} = {format_flops(flops)}; "
            f"{format_flops(flops)} / ({cluster.gpus} × {format_rate(peak)} × {mfu:g})"
            f" = {format_seconds(flops / rate)}"
        ),
        caveats=_caveats(cluster, dtype, params, architecture, length),
    )


def _parameters(params: float | None, architecture: Architecture | None) -> float:
    if params is not None:
        return _check_size("params", params)
    if architecture is None:
        raise InputError(
            field="params",
            value="",
            problem="is missing, and there is no model to count",
            accepted="a number of parameters such as 70B, or a model",
        )
    return parameters(architecture).active


def _sequence(architecture: Architecture | None, seq: int | None) -> int | None:
    """The sequence length of the ledger's count; None where there is no architecture."""
    if architecture is None:
        if seq is not None:
            problem = "needs a model: 6·N·D does not depend on it"
            raise InputError(field="seq", value=seq, problem=problem, accepted="leave seq out")
        return None
    length = positive("seq", default_seq(architecture) if seq is None else seq)
    limit = architecture.max_positions if architecture.learned_positions else None
    if limit is not None and length > limit:
        raise InputError(
            field="seq",
            value=length,
            problem=f"is more than the {limit} learnt positions",
            accepted=f"1 to {limit}",
        )
    return length


def _by_ledger(
    architecture: Architecture | None, seq: int | None, tokens: float, rate: float
) -> tuple[LedgerTime, ...]:
    if architecture is None:
        return ()
    setting, layout = whole(architecture, seq=seq), (whole_stage(architecture),)
    found = []
    for convention in ("causal", "full"):
        each = sequence_flops(setting, layout, causal=convention == "causal").model
        flops = float(each) * tokens / setting.seq
        found.append(LedgerTime(convention=convention, flops=flops, seconds=flops / rate))
    return tuple(found)


def _caveats(
    cluster: Cluster,
    dtype: str,
    params: float | None,
    architecture: Architecture | None,
    seq: int | None,
) -> tuple[str, ...]:
    rate = (
        f"MFU is a share of the dense {number_format(dtype).peak} peak of {cluster.device.name}; "
        "recomputation, restarts and evaluation are not in it."
    )
    if architecture is None:
        return (
            "6·N·D leaves out attention's scores, which grow with the sequence and count at "
            "long context; with a model the corrected figure stands beside it.",
            "With experts, N is the parameters that one token meets, not all of them.",
            rate,
        )
    count = parameters(architecture)
    described = f"{architecture.name} has {format_count(count.total)} parameters"
    if architecture.is_moe:
        described += f", of which a token meets {format_count(count.active)}"
    used = "the latter" if architecture.is_moe else "all of them"
    return (
        f"6·N·D leaves out attention's scores and counts the embedding as a product; the "
        f"ledger's count at seq {seq} stands beside it, causal (half of the square of scores) "
        "and full. An MFU belongs to the convention that it was measured in.",
        f"{described}; N is {used if params is None else 'as given'}.",
        rate,
    )


def _check_size(field: str, value: float) -> float:
    """The value, if it is a number that a model or a data set can have."""
    sensible = isinstance(value, int | float) and not isinstance(value, bool)
    if not (sensible and 1 <= value <= LARGEST):  # a NaN compares false
        raise InputError(
            field=field,
            value=value,
            problem="is not a finite number of at least 1",
            accepted="a number such as 70e9",
        )
    return value


def _check_mfu(mfu: float) -> None:
    sensible = isinstance(mfu, int | float) and not isinstance(mfu, bool)
    if not (sensible and LEAST_MFU <= mfu <= 1):
        hint = ""
        if sensible and 1 < mfu <= 100:
            hint = f"write {mfu / 100:g} for {format_percent(mfu / 100)}"
        raise InputError(
            field="mfu",
            value=mfu,
            problem="is not a share of peak",
            accepted=f"{LEAST_MFU:g} to 1, such as 0.4",
            hint=hint,
        )
