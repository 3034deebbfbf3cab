"""Shell text -> words and operators, as POSIX sh and bash cut them; nothing is run.

A word is a list of parts: text, or something that the shell would replace. Comments,
redirections and here-documents are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

PartKind: TypeAlias = Literal["text", "variable", "arithmetic", "command"]

_OPERATORS = (";;", "&&", "||", "|&", ";", "&", "|", "\n", "(", ")")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=$")
_PLACEHOLDER = re.compile(r"<[A-Z][^<>\n$`]{0,80}[^<>\s$`]>(?=[\s\\\"']|$)")
"""``<PATH TO CHECKPOINTS>``, which a person is to fill in: a word, and no redirection."""

_REDIRECTION = re.compile(r"(?:&>>?|[0-9]*(?:>>|>&|<&|>\||>|<))")
_HERE = re.compile(r"<<-?\s*([\"']?)(\w+)\1")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A piece of a word.

    Attributes:
        kind: what it is.
        text: the text; a variable's name with what stands beside it in braces; the expression
            of ``$(( ))``; or a command substitution as it is written.
        quoted: it stands in quotes, and what replaces it is not cut at blanks.
    """

    kind: PartKind
    text: str
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Token:
    """A word, an operator, or the words of an array.

    Attributes:
        parts: of a word.
        operator: the operator; empty for a word.
        array: the words between the brackets of ``NAME=( … )``, whose word is ``NAME=``.
        arithmetic: the expression of ``(( … ))``.
    """

    parts: tuple[Part, ...] = ()
    operator: str = ""
    array: tuple[Token, ...] | None = None
    arithmetic: str | None = None

    @property
    def plain(self) -> str | None:
        """The text of a word that holds nothing quoted and nothing to replace."""
        if self.operator or self.array is not None or not self.parts:
            return None
        if any(part.kind != "text" or part.quoted for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)


class Lexer:
    """Cuts a text.

    Args:
        text: a script, or a string that a shell is given to run.
    """

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n").replace("\\\n", " ")
        self.at = 0
        self._delimiters: list[str] = []

    def tokens(self) -> list[Token]:
        """Every token of the text."""
        return self._until(None)

    def _until(self, close: str | None) -> list[Token]:
        found: list[Token] = []
        while self.at < len(self.text):
            rest = self.text[self.at : self.at + 2]
            if rest[0] == "#":
                self._skip_line()
            elif close is not None and rest[0] == close:
                self.at += 1
                return found
            elif rest[0] in " \t" or (close is not None and rest[0] == "\n"):
                self.at += 1
            elif rest == "((":
                found.append(Token(arithmetic=self._balanced("((", "))")))
            elif not self._skipped_redirection():
                found.append(self._operator() or self._word())
        return found

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _skipped_redirection(self) -> bool:
        """Skip a redirection and its target, and remember where a here-document ends."""
        here = _HERE.match(self.text, self.at)
        if here:
            self._delimiters.append(here[2])
            self.at = here.end()
            return True
        if self.text.startswith("<<<", self.at):
            self.at += 3
        elif self.text.startswith(("<(", ">("), self.at) or _PLACEHOLDER.match(self.text, self.at):
            return False
        else:
            match = _REDIRECTION.match(self.text, self.at)
            if match is None:
                return False
            self.at = match.end()
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.text[self.at : self.at + 1] not in ("", "\n"):
            self._word()
        return True

    def _operator(self) -> Token | None:
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                if operator == "\n":
                    self._skip_documents()
                return Token(operator=";" if operator == "\n" else operator)
        return None

    def _skip_documents(self) -> None:
        for delimiter in self._delimiters:
            end = re.compile(rf"^\s*{re.escape(delimiter)}\s*$", re.MULTILINE).search(
                self.text, self.at
            )
            self.at = len(self.text) if end is None else end.end()
        self._delimiters.clear()

    def _word(self) -> Token:
        blank = _PLACEHOLDER.match(self.text, self.at)
        if blank is not None:
            self.at = blank.end()
            return Token(parts=(Part(kind="text", text=blank[0], quoted=True),))
        parts: list[Part] = []
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;&|)" or (char in "<>" and self.at > start):
                break
            if char == "(":
                written = "".join(part.text for part in parts)
                if _ARRAY.fullmatch(written):
                    self.at += 1
                    return Token(parts=tuple(parts), array=tuple(self._until(")")))
                break
            parts.extend(self._part())
        if self.at == start:  # a bracket where no word can begin
            self.at += 1
            return Token(operator=";")
        return Token(parts=tuple(parts))

    def _part(self) -> list[Part]:
        char = self.text[self.at]
        if char == "'":
            return [Part(kind="text", text=self._until_quote("'"), quoted=True)]
        if char == '"':
            return self._double_quoted()
        if char in "$`":
            return [self._replaced(quoted=False)]
        if char == "\\":
            self.at += 2
            return [Part(kind="text", text=self.text[self.at - 1 : self.at], quoted=True)]
        self.at += 1
        return [Part(kind="text", text=char, quoted=False)]

    def _until_quote(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        return text

    def _double_quoted(self) -> list[Part]:
        self.at += 1
        parts = [Part(kind="text", text="", quoted=True)]  # an empty string is a word too
        plain = ""
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char in "$`":
                parts += [Part(kind="text", text=plain, quoted=True), self._replaced(quoted=True)]
                plain = ""
                continue
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                self.at += 1
            plain += self.text[self.at]
            self.at += 1
        self.at += 1
        return [*parts, Part(kind="text", text=plain, quoted=True)]

    def _replaced(self, *, quoted: bool) -> Part:
        """What stands behind a dollar sign or a back-quote."""
        if self.text[self.at] == "`":
            return Part(kind="command", text=f"`{self._until_quote('`')}`", quoted=quoted)
        if self.text.startswith("$((", self.at):
            self.at += 1
            return Part(kind="arithmetic", text=self._balanced("((", "))"), quoted=quoted)
        if self.text.startswith("$(", self.at):
            self.at += 1
            return Part(kind="command", text=f"$({self._balanced('(', ')')})", quoted=quoted)
        if self.text.startswith("${", self.at):
            self.at += 1
            return Part(kind="variable", text=self._balanced("{", "}"), quoted=quoted)
        name = _NAME.match(self.text, self.at + 1)
        if name is None:
            self.at += 1
            return Part(kind="text", text="$", quoted=quoted)
        self.at = name.end()
        return Part(kind="variable", text=name[0], quoted=quoted)

    def _balanced(self, opening: str, closing: str) -> str:
        """What stands between two brackets, which may hold more of them."""
        single, depth = opening[0], len(opening)
        end = closing[0]
        at = self.at + len(opening)
        start = at
        while at < len(self.text) and depth:
            depth += {single: 1, end: -1}.get(self.text[at], 0)
            at += 1
        inside = self.text[start : max(at - len(closing), start)]
        self.at = at
        return inside
