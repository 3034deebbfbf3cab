"""``tonnage op``: one operation on one device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json
from tonnage.errors import InputError

_OPERATION = "relu, gelu, softmax, layernorm, dot, matvec, matmul, attention, or an einsum."


def op(
    *words: Annotated[
        str,
        Parameter(
            name="OPERATION NAME=SIZE",
            help=f"{_OPERATION} Then the size of each axis, such as n=1024.",
        ),
    ],
    device: Annotated[str, Parameter(metavar="NAME", help="On what.")] = "H100",
    dtype: Annotated[
        str, Parameter(metavar="NAME", help="Number format of every tensor and of the arithmetic.")
    ] = "bf16",
    as_json: JsonFlag = False,
    **named: Annotated[
        str, Parameter(metavar="SIZE", help="The size of an axis by its name: --n 1024 is n=1024.")
    ],
) -> int:
    """FLOPs, bytes moved, arithmetic intensity, bound and time limit of one operation."""
    from tonnage.cluster import find_device
    from tonnage.intensity import bound, find_operation
    from tonnage.report.operation import operation_json, print_operation

    given = (f"{name.replace('-', '_')}={size}" for name, size in named.items())
    text, sizes = _read((*words, *given))
    answer = bound(find_operation(text, sizes), find_device(device, field="device"), dtype)
    if as_json:
        print_json(operation_json(answer))
    else:
        print_operation(answer)
    return 0


def _read(words: Iterable[str]) -> tuple[str, dict[str, int]]:
    """The operation, and the size of each axis; they may come in any order."""
    from tonnage.cli.values import whole

    operations, sizes = [], {}
    for word in words:
        name, equals, size = (part.strip() for part in word.partition("="))
        if not equals:
            operations.append(word)
            continue
        if not name.isidentifier():
            raise InputError(
                field="SIZE", value=word, problem="names no axis", accepted="name=size: n=1024"
            )
        if name in sizes:
            raise InputError(field=name, value=size, problem="is given more than once")
        sizes[name] = whole(name, size)
    if len(operations) != 1:
        problem = "is missing" if not operations else "is one operation too many"
        raise InputError(
            field="OPERATION",
            value=operations[1] if operations else "",
            problem=problem,
            accepted=_OPERATION.rstrip("."),
            hint="quote a pattern: tonnage op 'm k, k n -> m n' m=64 k=64 n=64",
        )
    return operations[0], sizes
