"""How long a run takes where devices fail: checkpoints, the work lost, and the restarts.

Failures are taken to come at a constant rate (exponential intervals), as Young and Daly do:
J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974),
530-531; J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
dumps", FGCS 22 (2006), 303-312.
"""

from __future__ import annotations

import math


def young_interval(write: float, mtbf: float) -> float:
    """Seconds of work between checkpoints by Young's first order: ``sqrt(2·δ·M)``.

    Args:
        write: seconds to write a checkpoint, δ.
        mtbf: mean seconds between failures of the job, M.
    """
    return math.sqrt(2.0 * write * mtbf)


def daly_interval(write: float, mtbf: float) -> float:
    """Seconds of work between checkpoints by Daly's higher order (2006, equation 37).

    ``sqrt(2·δ·M)·(1 + sqrt(δ/2M)/3 + (δ/2M)/9) - δ``, and M where a checkpoint takes longer
    than twice that.

    Args:
        write: seconds to write a checkpoint, δ.
        mtbf: mean seconds between failures of the job, M.
    """
    if write >= 2.0 * mtbf:
        return mtbf
    ratio = write / (2.0 * mtbf)
    return young_interval(write, mtbf) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - write


def expected_seconds(
    work: float, *, interval: float, write: float, restart: float, mtbf: float
) -> float:
    """Seconds until some work is done (Daly 2006, equation 20).

    ``M·exp(R/M)·(exp((τ+δ)/M) - 1)·T/τ``: each piece of τ seconds with its checkpoint is tried
    until it goes through without a failure, and each try after one begins with a restart,
    which may fail as well. Infinite where no piece ever goes through in practice.

    Args:
        work: seconds without failures and checkpoints, T.
        interval: seconds of work between checkpoints, τ.
        write: seconds to write a checkpoint, δ.
        restart: seconds from a failure until work goes on, R.
        mtbf: mean seconds between failures of the job, M.
    """
    pieces = work / interval
    try:
        tried = math.expm1((interval + write) / mtbf)
        return mtbf * math.exp(restart / mtbf) * tried * pieces
    except OverflowError:
        return math.inf
