"""The tokens of a CEL expression, as far as its text is changed before it is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
      //[^\n]*
    | (?P<raw> [bB]?[rR][bB]? (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' ) )
    | (?P<string> [bB]? (?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
      | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign> [^\sA-Za-z_] )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN: Final = re.compile(r"""(["'])([^"'\\]+)\1""")
_BRACKETS: Final = {")": "(", "]": "[", "}": "{"}
STRING: Final = '"'


class Token(NamedTuple):
    """A word, a string (``text`` is STRING) or another character, from ``start`` to ``end``."""

    text: str
    start: int
    end: int


class Tokens(list[Token]):
    """The tokens of an expression, without comments."""

    def __init__(self, expression: str) -> None:
        super().__init__(_tokens(expression))
        self._expression = expression
        #: The index of the opening bracket for that of the closing one, and the reverse.
        self._partner: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self):
            if token.text in _BRACKETS.values():
                opened.append(index)
            elif token.text in _BRACKETS and opened:
                self._partner[index] = opened[-1]
                self._partner[opened.pop()] = index

    def text(self, index: int) -> str:
        """The text of a token; empty beyond the ends."""
        return self[index].text if 0 <= index < len(self) else ""

    def are(self, index: int, *texts: str) -> bool:
        """Whether these texts follow each other from this index."""
        return all(self.text(index + offset) == text for offset, text in enumerate(texts))

    def partner(self, index: int) -> int | None:
        """The index of the other bracket of a pair."""
        return self._partner.get(index)

    def literal(self, index: int) -> str | None:
        """The value of a string without escapes."""
        if self.text(index) != STRING:
            return None
        found = _PLAIN.fullmatch(self._expression, self[index].start, self[index].end)
        return found[2] if found else None

    def operand(self, dot: int) -> int | None:
        """The index at which the value begins that has a method behind this dot."""
        index = dot - 1
        while True:
            if self.text(index) in _BRACKETS:
                opening = self.partner(index)
                if opening is None:
                    return None
                index = opening
                if self._is_value_end(index - 1):
                    index -= 1
                    continue
            elif not self._is_value_end(index):
                return None
            before = index - 2 if self.text(index - 1) == "?" else index - 1
            if self.text(before) != ".":
                return index
            index = before - 1

    def _is_value_end(self, index: int) -> bool:
        text = self.text(index)
        return text != "in" and (text in (STRING, *_BRACKETS) or text.isidentifier())


def _tokens(expression: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(expression):
        if match.lastgroup in ("word", "sign"):
            yield Token(match[0], match.start(), match.end())
        elif match.lastgroup:
            yield Token(STRING, match.start(), match.end())
