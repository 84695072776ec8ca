"""The text of a selector, made ready for the library that compiles it.

- Kubernetes gives an empty map for an unknown domain of ``device.attributes`` and
  ``device.capacity``. The library knows no such map, so each lookup of a domain is completed:
  ``device.attributes["d"]`` becomes ``device.attributes[?"d"].orValue(dyn({}))``.
- Quantities and versions are bytes with the right order: ``a.isGreaterThan(b)`` becomes
  ``(b"" + a > b)``, and ``quantity("1Gi")`` becomes its bytes. So a frequent selector calls no
  function of Python, of which the library loses the arguments (about 200 bytes for a call).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from scheduler.model.dra.cel import quantities, versions
from scheduler.model.dra.cel.tokens import Tokens

_MAPS: Final = ("attributes", "capacity")
#: What follows the lookup of a domain, by whether it is optional.
_COMPLETION: Final = {False: ".orValue(dyn({}))", True: ".or(optional.of(dyn({})))"}
#: What stands before the first value, between both, and behind the second one. Bytes are added to
#: the first one because other types cannot be added to bytes.
_COMPARISONS: Final = {
    "isGreaterThan": ('(b"" + ', " > (", "))"),
    "isLessThan": ('(b"" + ', " < (", "))"),
    "compareTo": (
        'cel.bind(_left_, b"" + ',
        ", cel.bind(_right_, ",
        ", _left_ < _right_ ? -1 : _left_ > _right_ ? 1 : 0))",
    ),
}
_CONSTANTS: Final = {"quantity": quantities.quantity, "semver": versions.semver}
#: Functions that are called with the elements of a list.
_LIST_FUNCTIONS: Final = {
    *("includes", "indexOf", "isSorted", "lastIndexOf", "max", "min", "sum"),
}

_Change = tuple[int, int, str]


def completed(text: str) -> str:
    """The selector as it is compiled.

    >>> completed("has(device.attributes['d'].a)")
    "has(device.attributes[?'d'].orValue(dyn({})).a)"
    """
    tokens = Tokens(text)
    changes: list[_Change] = []
    for index in range(len(tokens)):
        changes += _lookup(tokens, index) or _comparison(tokens, index) or _constant(tokens, index)
    return _changed(text, changes)


def refusal(text: str) -> str:
    """Why a selector is not given to the library; empty if it can be.

    The library loses a reference to None for each null that reaches a function of Python.
    """
    tokens = [token.text for token in Tokens(text)]
    words = set(tokens)
    if "null" in words and words & _LIST_FUNCTIONS:
        return "null is not supported together with functions of lists"
    for word, following in pairwise(tokens):
        if following == "{" and word.isidentifier() and word != "in":
            return "messages are not supported"
    if "protobuf" in words:
        return "types of google.protobuf are not supported"
    return ""


def _lookup(tokens: Tokens, index: int) -> list[_Change]:
    """What completes the lookup of a domain whose bracket or dot has this index."""
    if tokens.text(index - 1) not in _MAPS or tokens.text(index - 2) != ".":
        return []
    is_optional = tokens.text(index + 1) == "?"
    if tokens.text(index) == "[":
        last = tokens.partner(index)
    elif tokens.text(index) == ".":
        field = index + 1 + is_optional
        is_field = tokens.text(field).isidentifier() and tokens.text(field + 1) != "("
        last = field if is_field and not _is_tested(tokens, index, field) else None
    else:
        return []
    if last is None:
        return []
    end = tokens[last].end
    mark = tokens[index].end
    completion = (end, end, _COMPLETION[is_optional])
    return [completion] if is_optional else [(mark, mark, "?"), completion]


def _is_tested(tokens: Tokens, dot: int, field: int) -> bool:
    """Whether a field is the argument of ``has``, which must remain a field."""
    first = tokens.operand(dot)
    return tokens.text(field + 1) == ")" and first is not None and tokens.are(first - 2, "has", "(")


def _comparison(tokens: Tokens, index: int) -> list[_Change]:
    """What turns the method of this index into an operator."""
    comparison = _COMPARISONS.get(tokens.text(index))
    if comparison is None or tokens.text(index - 1) != "." or tokens.text(index + 1) != "(":
        return []
    first, last = tokens.operand(index - 1), tokens.partner(index + 1)
    if first is None or last is None:
        return []
    start, dot = tokens[first].start, tokens[index - 1].start
    before, between, behind = comparison
    return [
        (start, start, before),
        (dot, tokens[index + 1].end, between),
        (tokens[last].start, tokens[last].end, behind),
    ]


def _constant(tokens: Tokens, index: int) -> list[_Change]:
    """What replaces a quantity or a version of a valid text by its bytes."""
    function = _CONSTANTS.get(tokens.text(index))
    text = tokens.literal(index + 2)
    if function is None or text is None or tokens.text(index - 1) == ".":
        return []
    if tokens.text(index + 1) != "(" or tokens.text(index + 3) != ")":
        return []
    try:
        constant = function(text)
    except ValueError:
        return []
    return [(tokens[index].start, tokens[index + 3].end, f'b"{constant.decode()}"')]


def _changed(text: str, changes: list[_Change]) -> str:
    parts = []
    position = 0
    # At one place, what is inserted comes before what replaces something.
    for start, end, what in sorted(changes, key=lambda change: change[:2]):
        parts += [text[position:start], what]
        position = end
    return "".join((*parts, text[position:]))
