"""A shell script read for what it would start: assignments followed, nothing run.

Assignments, arrays, exports and tests on what the script itself assigns are followed. Loops
and functions are not, nor branches whose condition the script does not decide: notes say
which lines that leaves out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from tonnage.files import UnreadableError
from tonnage.formats.shell_expand import MOST_WORDS, Values, arithmetic, expand, text_of
from tonnage.formats.shell_test import decide
from tonnage.formats.shell_words import Lexer, Token

Frame: TypeAlias = Literal["if", "case", "skipped", "function"]

MOST_COMMANDS = 5_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[\d+\])?(\+?)=")
_DIRECTIVE = re.compile(r"^#(?:SBATCH|PBS|BSUB)\s+(.*)$", re.MULTILINE)
_DECLARATIONS = frozenset({"export", "declare", "local", "readonly", "typeset"})
_RUNNERS = frozenset({"bash", "sh", "eval", "echo", "/bin/bash", "zsh"})


@dataclass
class _Level:
    """An ``if``, ``case``, loop or function that is open.

    Attributes:
        kind: which.
        outer: whether what surrounds it is followed.
        live: whether the branch at hand is followed.
        done: whether a branch has been followed, or none can be told.
        subject: the word of a ``case``.
        depth: braces that are open in a function.
    """

    kind: Frame
    outer: bool
    live: bool
    done: bool = False
    subject: str | None = None
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class Script:
    """What a script says.

    Attributes:
        commands: the words of every command that it would run, in order.
        values: variables as the script leaves them.
        directives: the words of its ``#SBATCH`` lines and their like.
        notes: what was not followed, in sentences.
    """

    commands: tuple[tuple[str, ...], ...]
    values: Values
    directives: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class _Reader:
    values: Values = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    levels: list[_Level] = field(default_factory=list)
    status: bool | None = True

    @property
    def live(self) -> bool:
        top = self.levels[-1] if self.levels else None
        return top is None or (top.outer and top.live)

    def run(self, tokens: list[Token], depth: int = 0) -> None:
        """Follow the commands of a list of tokens."""
        command: list[Token] = []
        joined, waiting = "", tokens[::-1]
        while waiting:
            token = waiting.pop()
            if self._alternative(token):
                continue
            if self._pattern(command, token) or self._defines(command, token, waiting):
                command = []
                continue
            if not token.operator and not _opens_test(command, token):
                command.append(token)
                continue
            if _opens_test(command, token):  # what stands in [[ ]] is not cut at its operators
                command.append(token)
                while waiting and waiting[-1].plain != "]]":
                    command.append(waiting.pop())
                continue
            self._end(command, joined, depth)
            joined, command = token.operator, []
        self._end(command, joined, depth)

    def _end(self, command: list[Token], joined: str, depth: int) -> None:
        """One command is complete."""
        while command:
            rest = self._keyword(command)
            if rest is None:
                break
            command = rest
        if not command or not self.live:
            return
        skipped = (joined == "&&" and self.status is not True) or (
            joined == "||" and self.status is not False
        )
        if not skipped:
            self.status = self._execute(command, depth)

    def _keyword(self, command: list[Token]) -> list[Token] | None:
        """Handle a reserved word at the start, and return what follows it; None: there is none."""
        word = command[0].plain
        top = self.levels[-1] if self.levels else None
        if word in ("if", "case", "for", "while", "until", "select", "function"):
            return self._open(word, command)
        if top is not None and top.kind == "function":
            top.depth += (word == "{") - (word == "}")
            if word == "}" and top.depth <= 0:
                self.levels.pop()
            return command[1:] if word in ("{", "}") else None
        if word in ("fi", "done", "esac"):
            if self.levels:
                self.levels.pop()
        elif word == "then":
            self._branch(self.status)
        elif word == "elif":
            self._next_condition()
        elif word == "else":
            self._branch(True, last=True)
        elif word not in ("do", "{", "}", "!", "time"):
            return None
        return command[1:]

    def _open(self, word: str | None, command: list[Token]) -> list[Token]:
        if word == "if":
            self.levels.append(_Level(kind="if", outer=self.live, live=True))
            return command[1:]
        if word == "case":
            subject = text_of(command[1], self.values) if len(command) > 1 else ""
            known = None if "$" in subject else subject
            self.levels.append(_Level(kind="case", outer=self.live, live=False, subject=known))
            if known is None and self.levels[-1].outer:
                self._note(f"case {subject} is not decided by the script: no branch is read")
            return []
        kind: Frame = "function" if word == "function" else "skipped"
        if kind == "skipped" and self.live:
            self._note("a loop is not followed")
        self.levels.append(_Level(kind=kind, outer=self.live, live=False))
        return []

    def _branch(self, condition: bool | None, *, last: bool = False) -> None:
        if not self.levels or self.levels[-1].kind != "if":
            return
        level = self.levels[-1]
        if level.done:
            level.live = False
            return
        level.live = condition is True
        level.done = condition is not False or last
        if condition is None and level.outer:
            self._note("an if that the script does not decide: no branch of it is read")

    def _next_condition(self) -> None:
        if self.levels and self.levels[-1].kind == "if":
            self.levels[-1].live = not self.levels[-1].done

    def _pattern(self, command: list[Token], token: Token) -> bool:
        """The pattern of a branch of a case, or the end of one."""
        top = self._case()
        if top is None:
            return False
        if token.operator == ";;":
            self._end(command, "", 0)
            top.live = False
            return True
        if token.operator != ")" or top.live:
            return False
        words = [t.plain or text_of(t, self.values) for t in command if t.plain not in ("in",)]
        matched = top.subject is not None and any(fnmatchcase(top.subject, w) for w in words)
        top.live = matched and not top.done
        top.done = top.done or matched
        return True

    def _alternative(self, token: Token) -> bool:
        """A bar between two patterns of one branch."""
        top = self._case()
        return top is not None and not top.live and token.operator == "|"

    def _case(self) -> _Level | None:
        return self.levels[-1] if self.levels and self.levels[-1].kind == "case" else None

    def _defines(self, command: list[Token], token: Token, waiting: list[Token]) -> bool:
        """``name ()`` begins a function, whose body is not followed."""
        if token.operator != "(" or len(command) != 1 or not waiting:
            return False
        if waiting[-1].operator != ")":
            return False
        waiting.pop()
        self.levels.append(_Level(kind="function", outer=self.live, live=False))
        return True

    def _execute(self, command: list[Token], depth: int) -> bool | None:
        """Follow one simple command; what it returns, where that can be told."""
        if command[0].arithmetic is not None:
            number = arithmetic(command[0].arithmetic, self.values)
            return None if number is None else number != 0
        while command and (self._assign(command[0]) or command[0].plain in _DECLARATIONS):
            command = command[1:]
        if not command:
            return True
        words = [word for token in command for word in expand(token, self.values)]
        if words and words[0] in ("[", "[[", "test"):
            return decide(words)
        if words[:1] == ["unset"]:
            for name in words[1:]:
                self.values.pop(name, None)
        self._add(words, depth)
        return True

    def _add(self, words: list[str], depth: int) -> None:
        if len(self.commands) >= MOST_COMMANDS or len(words) > MOST_WORDS:
            raise UnreadableError("holds too many commands")
        self.commands.append(tuple(words))
        inner = [word for word in words[1:] if "--" in word and any(c.isspace() for c in word)]
        if depth < 3 and (words[0] in _RUNNERS or {"bash", "sh", "/bin/bash"} & set(words)):
            for text in inner or ([" ".join(words[1:])] if words[0] == "eval" else []):
                self.run(Lexer(text.replace("\n", " ")).tokens(), depth + 1)

    def _assign(self, token: Token) -> bool:
        first = token.parts[0].text if token.parts and not token.parts[0].quoted else ""
        written = "".join(p.text for p in token.parts if p.kind == "text" and not p.quoted)
        match = _ASSIGNMENT.match(written)
        if match is None or not (first and match.end() <= len(written)):
            return False
        name, more = match[1], bool(match[2])
        if token.array is not None:
            items = [w for item in token.array for w in expand(item, self.values)]
            old = self.values.get(name, []) if more else []
            self.values[name] = [*([old] if isinstance(old, str) else old), *items]
        else:
            value = text_of(token, self.values)[match.end() :]
            old = self.values.get(name, "") if more else ""
            self.values[name] = (old if isinstance(old, str) else " ".join(old)) + value
        return True

    def _note(self, sentence: str) -> None:
        self.notes[sentence] = None


def _opens_test(command: list[Token], token: Token) -> bool:
    words = [t.plain for t in command if t.plain not in ("if", "elif", "while", "until", "!")]
    return token.plain == "[[" and not words


def read_script(text: str) -> Script:
    """Follow a script.

    Raises:
        UnreadableError: it unfolds to too much.
    """
    reader = _Reader()
    reader.run(Lexer(text).tokens())
    directives = tuple(word for line in _DIRECTIVE.findall(text) for word in line.split())
    return Script(
        commands=tuple(reader.commands),
        values=reader.values,
        directives=directives,
        notes=tuple(reader.notes),
    )
