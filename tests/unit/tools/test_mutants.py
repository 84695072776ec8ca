"""The list of guards matches the code, and the runner distinguishes noticed from unnoticed."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
import yaml

from tools.mutants import __main__ as runner
from tools.mutants import manifest, mutation
from tools.mutants.__main__ import ROOT, attempt
from tools.mutants.guards import Guard, Misfit, read, without

GUARDS = read()


@cache
def source(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def reformatted(file: str) -> str:
    """The same code in other lines, without comments and spare parentheses."""
    return ast.unparse(ast.parse(source(file)))


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.guard)
def test_guard_is_found_and_its_tests_exist(guard: Guard) -> None:
    """However the file is formatted; what is left is still Python, or YAML, and another text."""
    assert guard.tests
    assert all((ROOT / test.partition("::")[0]).exists() for test in guard.tests)
    text = source(guard.file)
    if guard.file.endswith(".yaml"):
        before, after = yaml.safe_load_all(text), yaml.safe_load_all(without(guard, text))
        assert [*before] != [*after]
        return
    changed = without(guard, text)
    compile(changed, guard.file, "exec")
    assert changed != reformatted(guard.file)
    assert changed == without(guard, reformatted(guard.file))


def test_the_list_is_long_enough_to_mean_something() -> None:
    assert len(GUARDS) >= 60


CODE = "def is_odd(n: int) -> bool:\n    return n % 2 == 1\n"
TEST = "from odd import is_odd\n\ndef test_it():\n    assert is_odd({number}){rest}\n"


def guard(find: str, change: str, test: str = "test_odd.py") -> Guard:
    return Guard(guard="g", file="odd.py", at="is_odd", find=find, change=change, tests=(test,))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "odd.py").write_text(CODE)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    return tmp_path


OUTCOMES = [
    pytest.param("return n", "False", TEST, "noticed", id="noticed"),
    pytest.param("return n", "True", TEST, "UNNOTICED", id="unnoticed"),
    pytest.param("return n", "await n", TEST, "broken", id="no-longer-python"),
    pytest.param("return m", "1", TEST, "misfit", id="not-there"),
    pytest.param("operand", "1", TEST, "misfit", id="several-times"),
]


@pytest.mark.parametrize(("find", "change", "test", "word"), OUTCOMES)
def test_what_becomes_of_a_guard_that_is_taken_out(
    tree: Path, find: str, change: str, test: str, word: str
) -> None:
    (tree / "test_odd.py").write_text(test.format(number=3, rest=""))
    result = attempt(guard(find, change), tree, timeout_s=60)

    assert result.word == word, result.detail
    assert (tree / "odd.py").read_text() == CODE, "it was put back"


HANGS = """
import time
from odd import is_odd

def test_it():
    while not is_odd(3):
        time.sleep(1)
"""
HANGS_ONCE = """
from pathlib import Path
import time

def test_it():
    mark = Path("mark")
    if not mark.exists():
        mark.touch()
        time.sleep(600)
    assert False
"""


def test_tests_that_do_not_end_show_nothing(tree: Path) -> None:
    """A mutant that hangs is an outcome of its own, and no success."""
    (tree / "test_odd.py").write_text(HANGS)
    lost = guard("return n", "False")
    result = attempt(lost, tree, timeout_s=8)

    assert (result.word, result.detail[:22]) == ("HUNG", "its tests did not end ")
    assert (tree / "odd.py").read_text() == CODE, "it was put back"


def test_a_test_that_reaches_a_limit_of_its_own_shows_nothing_either(tree: Path) -> None:
    """The failure is the clock's, and not the test's word on the code."""
    limited = HANGS.replace("import time", "import time, pytest", 1)
    limited = limited.replace("def test_it", "@pytest.mark.timeout(1)\ndef test_it")
    (tree / "test_odd.py").write_text(limited)
    lost = guard("return n", "False")

    assert attempt(lost, tree, timeout_s=60)[1:4:2] == ("HUNG", "test_it reached its own limit")


def test_hung_mutant_is_tried_once_more(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first run may time out; the second one is alone and has longer."""
    (tree / "test_once.py").write_text(HANGS_ONCE)
    monkeypatch.setattr(runner, "ROOT", tree)
    monkeypatch.setattr(runner, "TIMEOUT_S", 12.0)
    monkeypatch.setattr(runner, "AT_ONCE", 1)
    lost = guard("return n", "False", "test_once.py")

    assert [result.word for result in runner.run_all([lost])] == ["noticed"]


def test_two_guards_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "guards.yaml"
    file.write_bytes(msgspec.yaml.encode([GUARDS[0], GUARDS[0]]))

    with pytest.raises(Misfit, match="of one name"):
        read(file)


SAMPLE = """
LIMITS = {"pods": 1, "nodes": 2}


class Store:
    def add(self, item):
        if item.uid and not self.full:
            self.items.append(item)
        return [one for one in self.items if one.ready]

    def drop(self, item):
        with self.lock:
            self.items.remove(item, strict=True)
        return "gone" if item.uid else f"{item} never came"
"""


@pytest.mark.parametrize(
    ("at", "find", "change", "expected"),
    [
        pytest.param("", "item nodes", "drop", "LIMITS = {'pods': 1}", id="item-of-a-dict"),
        pytest.param("Store.add", "if item.uid", "False", "if False:", id="condition"),
        pytest.param("Store.add", "operand full", "drop", "if item.uid:", id="operand"),
        pytest.param("Store.add", "if uid", "it and x", "full)) and x", id="what-stood-there"),
        pytest.param("Store.add", "where ready", "drop", "for one in self.items]", id="where"),
        pytest.param("Store.add", "for items", "it[:1]", "in self.items[:1] if", id="iterable"),
        pytest.param("Store.add", "return ready", "()", "return ()", id="value"),
        pytest.param("Store.add", "statement append", "drop", "            pass", id="statement"),
        pytest.param("Store.add", "name append", "extend", "items.extend(item)", id="name"),
        pytest.param("Store.drop", "argument strict", "drop", "remove(item)\n", id="keyword"),
        pytest.param("Store.drop", "argument strict", "False", "strict=False", id="its-value"),
        pytest.param("Store.drop", "with lock", "drop", "):\n        self.items.re", id="with"),
        pytest.param("Store.drop", "choice gone", "None", "return None", id="choice"),
        pytest.param("Store.drop", "text never", "once", "once came", id="text"),
        pytest.param(
            "Store.drop", "statement strict", "it\nraise", "\n            raise", id="more"
        ),
    ],
)
def test_one_place_of_the_tree_is_changed(at: str, find: str, change: str, expected: str) -> None:
    before = ast.unparse(ast.parse(SAMPLE))

    after = mutation.mutated(SAMPLE, at, find, change)

    assert expected in after
    assert expected not in before


@pytest.mark.parametrize(
    ("at", "find", "complaint"),
    [
        pytest.param("Store.gone", "if uid", "0 definitions of gone", id="no-definition"),
        pytest.param("Store.add", "unless uid", "'unless' is no kind of place", id="no-kind"),
        pytest.param("Store.add", "if never", "is there 0 times", id="no-node"),
        pytest.param("Store.add", "statement self.items", "is there 2 times", id="two-nodes"),
        pytest.param("Store.add", "if uid", "cannot be dropped", id="needed"),
    ],
)
def test_a_place_that_is_not_clear_is_a_misfit(at: str, find: str, complaint: str) -> None:
    with pytest.raises(mutation.NotFound, match=complaint):
        mutation.mutated(SAMPLE, at, find, "drop")


def test_a_rename_of_whole_words_keeps_code_and_list_together() -> None:
    """The script that renames the sources runs over the list too."""
    row = ("Store.add", "if item.uid", "False")

    def renamed(text: str) -> str:
        for old, new in (("Store", "Cache"), ("add", "upsert"), ("item", "pod"), ("uid", "key")):
            text = re.sub(rf"\b{old}\b", new, text)
        return text

    after = mutation.mutated(renamed(SAMPLE), *map(renamed, row))

    assert after == renamed(mutation.mutated(SAMPLE, *row))


def test_a_manifest_is_changed_by_kind_and_name() -> None:
    text = "\n---\n".join(
        (
            "{kind: A, metadata: {name: a}, rule: x == 1}",
            "{kind: B, metadata: {name: a}, all: [b, c]}",
        )
    )

    after = [*yaml.safe_load_all(manifest.mutated(text, "A/a", "text x == 1", "true"))]
    assert [one.get("rule", one.get("all")) for one in after] == ["true", ["b", "c"]]
    after = [*yaml.safe_load_all(manifest.mutated(text, "B/a", "item b", "drop"))]
    assert [one.get("rule", one.get("all")) for one in after] == ["x == 1", ["c"]]
    with pytest.raises(mutation.NotFound, match="0 objects"):
        manifest.mutated(text, "B/b", "item b", "drop")
