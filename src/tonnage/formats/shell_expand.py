"""What a shell would put in place of a word, as far as the script itself says.

Variables that the script does not assign, command substitutions other than ``expr``'s
arithmetic and the patterns of ``${NAME%…}`` stay as they are written: nothing is run, and no
environment is looked at.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from tonnage.files import UnreadableError
from tonnage.formats.shell_words import Lexer, Part, Token

Values = dict[str, str | list[str]]

LONGEST_VALUE = 2**16
MOST_WORDS = 10_000
DEEPEST = 12
_BRACED = re.compile(
    r"(?P<length>#?)(?P<name>[A-Za-z_]\w*|[0-9@*#])(?:\[(?P<index>[@*]|[0-9]+)\])?"
    r"(?P<operator>:?[-=+?])?(?P<word>.*)",
    re.DOTALL,
)
_EXPR = re.compile(r"(?:\$\(|`)\s*expr\s+([^|&;<>]+?)\s*(?:\)|`)")
_OPERATIONS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


def expand(token: Token, values: Values, depth: int = 0) -> list[str]:
    """The words that one word becomes.

    Args:
        token: the word.
        values: what the script has assigned.
        depth: words inside words so far.

    Raises:
        UnreadableError: it becomes too much.
    """
    if depth > DEEPEST:
        raise UnreadableError("nests its words too deeply")
    words: list[str] = [""]
    empty = True
    for part in token.parts:
        pieces, breaks = _pieces(part, values, depth)
        empty = empty and not part.quoted and not pieces
        for index, piece in enumerate(pieces):
            if index and breaks and (words[-1] or pieces[index - 1] or part.quoted):
                words.append("")
            words[-1] += piece
        if len(words) > MOST_WORDS or len(words[-1]) > LONGEST_VALUE:
            raise UnreadableError("unfolds to too many words")
    return [] if empty else words


def text_of(token: Token, values: Values, depth: int = 0) -> str:
    """What a word becomes where it is not cut, as in an assignment."""
    return " ".join(expand(_quoted(token), values, depth))


def _quoted(token: Token) -> Token:
    parts = tuple(Part(kind=p.kind, text=p.text, quoted=True) for p in token.parts)
    return Token(parts=parts)


def _pieces(part: Part, values: Values, depth: int) -> tuple[list[str], bool]:
    """The pieces that a part becomes, and whether each starts a new word."""
    if part.kind == "text":
        return [part.text], False
    if part.kind == "command":
        worked = _worked_out(part.text, values)
        return [part.text if worked is None else str(worked)], False
    if part.kind == "arithmetic":
        number = arithmetic(part.text, values)
        return [f"$(({part.text}))" if number is None else str(number)], False
    found = _variable(part.text, values, depth)
    if found is None:
        name = part.text
        return ["${" + name + "}"], False
    if isinstance(found, list):
        if not part.quoted:  # each element is cut at its blanks, as any unquoted value is
            return [word for item in found for word in item.split()], True
        return ([" ".join(found)], False) if "[*]" in part.text else (found, True)
    if part.quoted:
        return [found], False
    # A blank at the start ends the word that stands before it.
    return ["", *found.split()] if found[:1].isspace() else found.split(), True


def _variable(text: str, values: Values, depth: int) -> str | list[str] | None:
    """What ``${text}`` stands for; None: the script does not say."""
    match = _BRACED.fullmatch(text)
    if match is None or (match["word"] and not match["operator"]):
        return None
    value = values.get(match["name"])
    if match["length"]:
        return str(len(value)) if value is not None else None
    if isinstance(value, list):
        value = _indexed(value, match["index"])
    if match["operator"] is None:
        return value
    blank = value is None or (":" in match["operator"] and not value)
    if match["operator"].endswith("?"):
        return value
    if match["operator"].endswith("+"):
        return "" if blank else _default(match["word"], values, depth)
    return _default(match["word"], values, depth) if blank else value


def _indexed(value: list[str], index: str | None) -> str | list[str] | None:
    if index in ("@", "*"):
        return value
    position = int(index or 0) if len(index or "") < 6 else len(value)
    return value[position] if position < len(value) else None


def _default(word: str, values: Values, depth: int) -> str:
    tokens = [token for token in Lexer(word).tokens() if not token.operator]
    return " ".join(text_of(token, values, depth + 1) for token in tokens)


def _worked_out(text: str, values: Values) -> int | None:
    """The value of ``$(expr 16 / $N)``, the one command that is arithmetic and nothing else."""
    match = _EXPR.fullmatch(text)
    return None if match is None else arithmetic(match[1].replace("\\*", "*"), values)


def arithmetic(text: str, values: Values) -> int | None:
    """The value of ``$((text))``: whole numbers, names, ``+ - * / %`` and brackets, no more."""
    if len(text) > 200:
        return None
    written = re.sub(r"\$\{?(\w+)\}?", r"\1", text).replace("/", "//")
    try:
        tree = ast.parse(written.strip(), mode="eval")
        found = _evaluate(tree.body, values)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return found


def _evaluate(node: ast.expr, values: Values) -> int:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluate(node.left, values), _evaluate(node.right, values)
        found = _OPERATIONS[type(node.op)](left, right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = -_evaluate(node.operand, values)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        found = node.value
    elif isinstance(node, ast.Name) and isinstance(value := values.get(node.id), str):
        found = int(value) if len(value) < 19 else 0
    else:
        raise ValueError
    if abs(found) > 10**18:
        raise ValueError
    return found
