"""A Python recipe read for the literals in it; nothing is imported or run.

What is seen: attributes that are set to a literal (``cfg.model.num_layers = 32``), keyword
arguments and defaults of parameters that are literals, and the model that a call of
``from_hf_pretrained`` and its like names. Where one name has several values the last one
counts, which a recipe that branches need not mean: the reader says so.
"""

from __future__ import annotations

import ast

from tonnage.files import UnreadableError

MOST_NODES = 50_000
_MODEL_CALLS = ("from_pretrained", "from_hf_pretrained", "import_ckpt")
MODEL = "pretrained_model_name_or_path"


def read_python(text: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """The literals of a recipe by dotted name, and the names that have several.

    Raises:
        UnreadableError: it is not Python, or too much of it.
    """
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"is not Python: {str(error)[:60]}") from None
    if len(nodes) > MOST_NODES:
        raise UnreadableError("is too large for a recipe")
    found: dict[str, object] = {}
    several: dict[str, None] = {}
    for node in nodes:
        for name, value in _named(node):
            literal = _literal(value)
            if literal is None:
                continue
            if name in found and found[name] != literal:
                several[name] = None
            found[name] = literal
    return found, tuple(several)


def _named(node: ast.AST) -> list[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Attribute() as target], value=value):
            return [(_dotted(target), value)]
        case ast.Call(func=function, args=arguments, keywords=keywords):
            named = [(k.arg, k.value) for k in keywords if k.arg is not None]
            if arguments and ast.unparse(function).endswith(_MODEL_CALLS):
                named.append((MODEL, arguments[0]))
            return named
        case ast.FunctionDef(args=parameters):
            return _defaults(parameters)
    return []


def _defaults(parameters: ast.arguments) -> list[tuple[str, ast.expr]]:
    named = parameters.posonlyargs + parameters.args
    last = named[len(named) - len(parameters.defaults) :]
    found = [(arg.arg, value) for arg, value in zip(last, parameters.defaults, strict=True)]
    only = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return found + [(arg.arg, value) for arg, value in only if value is not None]


def _dotted(target: ast.Attribute) -> str:
    """``cfg.model.num_layers`` without the variable that it starts with."""
    parts = []
    node: ast.expr = target
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts))


def _literal(node: ast.expr) -> object:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, bool | int | float | str | list | tuple) else None
