"""One change of a file's syntax tree: its place, and the replacement.

A place is named by a definition (``Class.method``), a kind of node and names that it mentions.
Line breaks, comments and the rest of the expression do not matter. A script that renames whole
words in the sources and in the list keeps both in step.

    at: SchedulingQueue.flush          the definition; left out: the module's own statements
    find: if cohort                    the condition of the `if` that mentions `cohort`
    change: "False"                    the replacement; `it` is the former expression

| kind | what is replaced |
|---|---|
| `if`, `while` | the condition |
| `for` | the iterable of a statement or a comprehension |
| `return`, `assign` | the value; the targets count as mentioned |
| `where` | a condition of a comprehension |
| `choice` | a conditional expression (`a if b else c`) |
| `operand` | one side of an operator |
| `call` | a call |
| `argument` | an argument of a call; its keyword counts as mentioned |
| `item` | an element of a tuple, list, set or dict; its key counts as mentioned |
| `name` | an identifier, replaced by another name |
| `text` | a part of a string, found literally |
| `statement` | a statement; `with`: the same, and dropping it leaves its body |

Where several nodes match, those inside of others win; `#2` after the names means the second of
those that are left. ``drop`` takes the node away: an operand leaves the other side, a statement
`pass`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

DROP: Final = "drop"
IT: Final = "it"
_ORDINAL: Final = re.compile(r"(.*?)\s+#([1-9])", re.DOTALL)
_Finder = Callable[[ast.AST], Iterator["Place"]]
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NotFound(Exception):
    """A place that is not in the file exactly once; the text is one line."""


class Place(NamedTuple):
    """A node in a field of its parent; ``about`` is the node with the mentioned names."""

    parent: Any
    field: str
    position: int | None
    about: ast.AST

    @property
    def node(self) -> Any:
        """The node at the place."""
        value = getattr(self.parent, self.field)
        return value if self.position is None else value[self.position]

    def put(self, node: Any) -> None:
        """Replace the node."""
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


class _Dropped(ast.expr):
    """A placeholder for a removed node, until its parent is repaired."""


def mutated(text: str, at: str, find: str, change: str) -> str:
    """A module's text with one change."""
    tree = ast.parse(text)
    scope = _definition(tree, at)
    kind, _, rest = find.strip().partition(" ")
    if kind not in _PLACES:
        raise NotFound(f"{kind!r} is no kind of place: {', '.join(_PLACES)}")
    if kind == "text":
        _change_text(_only(_texts(scope, rest), find), rest, change)
    elif kind == "name":
        _rename(_only([p for p in _places(scope, kind) if _name_of(p.node) == rest], find), change)
    else:
        _replace(kind, _selected(scope, kind, rest), change)
    closed = _Closing().visit(tree)
    if any(isinstance(node, _Dropped) for node in ast.walk(closed)):
        raise NotFound(f"{find!r} cannot be dropped: something has to stand there")
    return ast.unparse(ast.fix_missing_locations(closed))


# --- finding ---------------------------------------------------------------------------------


def _definition(tree: ast.Module, at: str) -> ast.AST:
    scope: Any = tree
    for name in at.split(".") if at else ():
        found = [
            node for node in _own(scope) if isinstance(node, _DEFINITIONS) and node.name == name
        ]
        if len(found) != 1:
            raise NotFound(f"{at}: {len(found)} definitions of {name} instead of one")
        scope = found[0]
    return scope  # type: ignore[no-any-return] # a definition: checked above


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a definition, in source order, without the bodies of nested definitions."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, _DEFINITIONS):
            yield from _own(child)


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function; of a class or a module only those outside of other definitions."""
    if isinstance(scope, (ast.Module, ast.ClassDef)):
        return _own(scope)
    return _below(scope)


def _below(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        yield from _below(child)


def _places(scope: ast.AST, kind: str) -> list[Place]:
    find = _PLACES[kind]
    return [place for node in (scope, *_inside(scope)) for place in find(node)]


def _selected(scope: ast.AST, kind: str, words: str) -> Place:
    ordinal = _ORDINAL.fullmatch(words)
    names = {*(ordinal[1] if ordinal else words).split()}
    matching = [place for place in _places(scope, kind) if names <= mentioned(place.about)]
    abouts = {id(place.about) for place in matching}
    innermost = [
        place for place in matching if not any(id(node) in abouts for node in _below(place.about))
    ]
    if ordinal:
        innermost = innermost[int(ordinal[2]) - 1 :][:1]
    return _only(innermost, f"{kind} {words}")


def _only(places: list[Place], find: str) -> Place:
    if len(places) != 1:
        raise NotFound(f"{find!r} is there {len(places)} times instead of once")
    return places[0]


def mentioned(node: ast.AST) -> set[str]:
    """The identifiers and constants in a node, in the notation of the list."""
    words = set()
    for each in (node, *_below(node)):
        if name := _name_of(each):
            words.add(name)
        if isinstance(each, ast.Constant):
            words.add(str(each.value))
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            words.add(f"{each.value.id}.{each.attr}")
    return words


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.keyword(arg=str(name)) | ast.alias(name=name) | ast.arg(arg=name):
            return name
    return ""


# --- the kinds of places ---------------------------------------------------------------------


def _field(types: tuple[type[ast.AST], ...], field: str, whole: bool = False) -> _Finder:
    """The field of these nodes; ``whole``: the names are those of the node itself."""

    def find(node: ast.AST) -> Iterator[Place]:
        if isinstance(node, types) and getattr(node, field) is not None:
            yield Place(node, field, None, node if whole else getattr(node, field))

    return find


def _children(types: tuple[type[ast.AST], ...]) -> _Finder:
    """Nodes of these types, anywhere."""

    def find(node: ast.AST) -> Iterator[Place]:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, types):
                        yield Place(node, field, index, each)
            elif isinstance(value, types):
                yield Place(node, field, None, value)

    return find


def _listed(fields: dict[type[ast.AST], tuple[str, ...]]) -> _Finder:
    """The nodes in these fields of these types."""

    def find(node: ast.AST) -> Iterator[Place]:
        for field in fields.get(type(node), ()):
            value = getattr(node, field)
            if isinstance(value, list):
                for index, each in enumerate(value):
                    yield Place(node, field, index, each)
            else:
                yield Place(node, field, None, value)

    return find


def _items(node: ast.AST) -> Iterator[Place]:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for index, each in enumerate(node.elts):
            yield Place(node, "elts", index, each)
    if isinstance(node, ast.Dict):
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            about = ast.Tuple([value] if key is None else [key, value], ast.Load())
            yield Place(node, "values", index, about)


_PLACES: Final[dict[str, _Finder]] = {
    "if": _field((ast.If,), "test"),
    "while": _field((ast.While,), "test"),
    "for": _field((ast.For, ast.AsyncFor, ast.comprehension), "iter"),
    "return": _field((ast.Return,), "value"),
    "assign": _field(
        (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), "value", whole=True
    ),
    "where": _listed({ast.comprehension: ("ifs",)}),
    "choice": _children((ast.IfExp,)),
    "operand": _listed(
        {
            ast.BoolOp: ("values",),
            ast.BinOp: ("left", "right"),
            ast.Compare: ("left", "comparators"),
        }
    ),
    "call": _children((ast.Call,)),
    "argument": _listed({ast.Call: ("args", "keywords")}),
    "item": _items,
    "name": _children((ast.Name, ast.Attribute, ast.keyword)),
    "text": _children((ast.Constant,)),
    "statement": _children((ast.stmt,)),
    "with": _children((ast.With, ast.AsyncWith)),
}


# --- changing --------------------------------------------------------------------------------


def _replace(kind: str, place: Place, change: str) -> None:
    before = place.node
    if isinstance(before, ast.stmt):
        place.put(_Block(_statements(before, change, kind)))
    elif isinstance(before, ast.keyword) and change != DROP:
        before.value = _expression(before.value, change)
    else:
        place.put(_Dropped() if change == DROP else _expression(before, change))


def _expression(before: ast.expr, change: str) -> ast.expr:
    return _With(before).visit(ast.parse(change, mode="eval").body)  # type: ignore[no-any-return] # visit is untyped


def _statements(before: ast.stmt, change: str, kind: str) -> list[ast.stmt]:
    if change == DROP:
        return before.body if kind == "with" else [ast.Pass()]  # type: ignore[attr-defined] # With has a body
    statements = ast.parse(change).body
    return [before if _is_it(each) else each for each in statements]


def _is_it(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Name(id="it")):
            return True
    return False


def _rename(place: Place, name: str) -> None:
    node = place.node
    for field in ("id", "attr", "arg"):
        if hasattr(node, field):
            setattr(node, field, name)


def _texts(scope: ast.AST, part: str) -> list[Place]:
    return [
        place
        for place in _places(scope, "text")
        if isinstance(place.node.value, str) and part in place.node.value
    ]


def _change_text(place: Place, part: str, change: str) -> None:
    place.node.value = place.node.value.replace(part, "" if change == DROP else change)


class _With(ast.NodeTransformer):
    """Replaces ``it`` in the change by the former node."""

    def __init__(self, before: ast.expr) -> None:
        self._before = before

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._before if node.id == IT else node


class _Block(ast.stmt):
    """Several statements in place of one."""

    def __init__(self, body: list[ast.stmt]) -> None:
        super().__init__()
        self.body = body


class _Closing(ast.NodeTransformer):
    """Repairs parents of removed nodes, and inlines blocks."""

    def generic_visit(self, node: Any) -> Any:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and field != "keys":
                if isinstance(node, ast.Dict):
                    pairs = zip(node.keys, value, strict=True)
                    kept = [pair for pair in pairs if not isinstance(pair[1], _Dropped)]
                    node.keys = [key for key, _ in kept]
                value[:] = [
                    part
                    for each in value
                    if not isinstance(each, _Dropped)
                    for part in (each.body if isinstance(each, _Block) else (each,))
                ]
        super().generic_visit(node)
        match node:
            case ast.BoolOp(values=[only]):
                return only
            case ast.BinOp(left=_Dropped(), right=other) | ast.BinOp(left=other, right=_Dropped()):
                return other
        return node
