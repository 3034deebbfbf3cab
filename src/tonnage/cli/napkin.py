"""``tonnage napkin``: the back of the envelope."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.stdin import show_hyphen

napkin = App(
    name="napkin",
    help="The back of the envelope: how long a run takes, how large a model can be.",
    help_format="plaintext",
)

Gpus = Annotated[str, Parameter(metavar="NxDEVICE", help="How many of what, such as 1024xH100.")]


@napkin.command(name="time")
def train_time(
    *,
    tokens: Annotated[str, Parameter(metavar="N", help="Tokens of the whole run, such as 15T.")],
    gpus: Gpus,
    mfu: Annotated[
        str, Parameter(metavar="X", help="Share of peak that model FLOPs reach: 0.5 or 50%.")
    ],
    params: Annotated[
        str | None,
        Parameter(metavar="N", help="Parameters, such as 70B; those that a token meets."),
    ] = None,
    model: Annotated[
        str | None,
        Parameter(metavar="MODEL", help="Count this model's FLOPs as well, attention included."),
    ] = None,
    seq: Annotated[
        str | None, Parameter(metavar="N", help="Tokens in a sequence, with --model.")
    ] = None,
    dtype: Annotated[
        str, Parameter(metavar="NAME", help="The number format whose dense peak counts.")
    ] = "bf16",
    as_json: JsonFlag = False,
) -> int:
    """How long a training run takes, by 6·N·D."""
    from tonnage import napkin as envelope
    from tonnage.arch import load
    from tonnage.cli.values import whole
    from tonnage.cluster import parse_cluster
    from tonnage.quantity import parse_count, parse_fraction

    answer = envelope.train_time(
        None if params is None else parse_count(params, field="params"),
        parse_count(tokens, field="tokens"),
        parse_cluster(gpus, field="gpus"),
        parse_fraction(mfu, field="mfu"),
        dtype=dtype,
        architecture=None if model is None else load(show_hyphen(model)),
        seq=None if seq is None else whole("seq", seq.strip()),
    )
    if as_json:
        print_json(answer.to_json())
    else:
        from tonnage.report.napkin import print_train_time

        print_train_time(answer)
    return 0


@napkin.command(name="max-params")
def max_params(
    *,
    gpus: Gpus,
    recipe: Annotated[
        str | None, Parameter(metavar="NAME|BYTES", help="A recipe, or bytes a parameter: 16.")
    ] = None,
    optimizer: Annotated[
        str | None, Parameter(metavar="NAME", help="Whose moments count; Adam's two if left out.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """How large a model can be: memory over bytes a parameter, states alone."""
    from tonnage import napkin as envelope
    from tonnage.cluster import parse_cluster

    answer = envelope.max_parameters(
        parse_cluster(gpus, field="gpus"),
        envelope.DEFAULT_RECIPE if recipe is None else recipe,
        optimizer=optimizer,
    )
    if as_json:
        print_json(answer.to_json())
    else:
        from tonnage.report.napkin import print_max_parameters

        print_max_parameters(answer)
    return 0
