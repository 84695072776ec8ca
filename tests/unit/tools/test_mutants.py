"""The list of guards fits the code, and the runner tells noticed from unnoticed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tools.mutants import __main__ as runner
from tools.mutants.__main__ import ROOT, attempt
from tools.mutants.guards import Guard, Misfit, read, without

GUARDS = read()


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.guard)
def test_every_guard_stands_where_the_list_says_and_its_tests_exist(guard: Guard) -> None:
    """The list is kept by hand, and code moves."""
    text = (ROOT / guard.file).read_text(encoding="utf-8")

    assert without(guard, text) != text
    assert guard.tests
    assert all((ROOT / test.partition("::")[0]).exists() for test in guard.tests)


def test_the_list_is_long_enough_to_mean_something() -> None:
    assert len(GUARDS) >= 60


CODE = "def is_odd(n: int) -> bool:\n    return n % 2 == 1\n"
TEST = "from odd import is_odd\n\ndef test_it():\n    assert is_odd({number}){rest}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "odd.py").write_text(CODE)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    return tmp_path


OUTCOMES = [
    pytest.param("return n % 2 == 1", "return False", TEST, "noticed", id="noticed"),
    pytest.param("return n % 2 == 1", "return True", TEST, "UNNOTICED", id="unnoticed"),
    pytest.param("return n % 2 == 1", "return (", TEST, "broken", id="no-longer-python"),
    pytest.param("return n % 3", "return 1", TEST, "misfit", id="not-there"),
    pytest.param("n", "m", TEST, "misfit", id="several-times"),
]


@pytest.mark.parametrize(("old", "new", "test", "word"), OUTCOMES)
def test_what_becomes_of_a_guard_that_is_taken_out(
    tree: Path, old: str, new: str, test: str, word: str
) -> None:
    (tree / "test_odd.py").write_text(test.format(number=3, rest=""))
    result = attempt(Guard("g", "odd.py", old, new, ("test_odd.py",)), tree, timeout_s=60)

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
    guard = Guard("g", "odd.py", "return n % 2 == 1", "return False", ("test_odd.py",))
    result = attempt(guard, tree, timeout_s=8)

    assert (result.word, result.detail[:22]) == ("HUNG", "its tests did not end ")
    assert (tree / "odd.py").read_text() == CODE, "it was put back"


def test_a_test_that_reaches_a_limit_of_its_own_shows_nothing_either(tree: Path) -> None:
    """The failure is the clock's, and not the test's word on the code."""
    limited = HANGS.replace("import time", "import time, pytest", 1)
    limited = limited.replace("def test_it", "@pytest.mark.timeout(1)\ndef test_it")
    (tree / "test_odd.py").write_text(limited)
    guard = Guard("g", "odd.py", "return n % 2 == 1", "return False", ("test_odd.py",))

    assert attempt(guard, tree, timeout_s=60)[1:4:2] == ("HUNG", "test_it reached its own limit")


def test_who_hung_is_tried_once_more(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first time says little; the second try is alone and has longer."""
    (tree / "test_once.py").write_text(HANGS_ONCE)
    monkeypatch.setattr(runner, "ROOT", tree)
    monkeypatch.setattr(runner, "TIMEOUT_S", 12.0)
    monkeypatch.setattr(runner, "AT_ONCE", 1)
    guard = Guard("g", "odd.py", "return n % 2 == 1", "return False", ("test_once.py",))

    assert [result.word for result in runner.run_all([guard])] == ["noticed"]


def test_two_guards_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "guards.yaml"
    file.write_bytes(msgspec.yaml.encode([GUARDS[0], GUARDS[0]]))

    with pytest.raises(Misfit, match="of one name"):
        read(file)
