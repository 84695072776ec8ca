"""Selectors of devices: compiled once per text, evaluated once per device.

A selector is a CEL expression of a DeviceClass or of a request. The API server has checked its
types and refused a costly one, so only its syntax is checked here. Types are checked by evaluation,
whose most frequent error is a key that the device does not have.

Bounds: ``SELECTOR_LENGTH_MAX``, ``SELECTORS_MAX``, ``SELECTOR_RESULTS_MAX`` and
``SELECTOR_FACTS_MAX`` of the limits.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scheduler.model.dra.cel.device_facts import DeviceFacts, variable
from scheduler.model.dra.cel.environment import environment
from scheduler.model.dra.cel.read_facts import read_facts
from scheduler.model.dra.cel.selector_text import completed, refusal
from scheduler.model.limits import (
    SELECTOR_FACTS_MAX,
    SELECTOR_LENGTH_MAX,
    SELECTOR_RESULTS_MAX,
    SELECTORS_MAX,
)

if TYPE_CHECKING:
    import cel_expr_python.cel as cel

MISSING_PACKAGE: Final = "selectors need the package cel-expr-python (extra dra)"

#: The first error of the compiler, without its position, which is that of the completed text.
_COMPILER_ERROR: Final = re.compile(r"<input>:\d+:\d+: (.*)")
_CAUSE_LENGTH_MAX: Final = 200
#: The attribute of a device with the results of its selectors.
_RESULTS: Final = "_selector_results"


class SelectorError(ValueError):
    """A selector that cannot be compiled, or not be evaluated for a device; the cause in a line."""


class Selector:
    """A compiled selector. ``text`` is the expression."""

    def __init__(self, text: str, expression: cel.Expression) -> None:
        self.text = text
        self._expression = expression
        self._reads = read_facts(text)
        #: Results by what it reads of a device.
        self.results: dict[Hashable, bool | str] = {}

    def matches(self, device: DeviceFacts) -> bool:
        """Whether it selects a device; SelectorError if it cannot be evaluated for it.

        The result is kept in the device's ``__dict__``, because a device never changes.
        """
        results: dict[str, bool | str] = vars(device).setdefault(_RESULTS, {})
        result = results.get(self.text)
        if result is None:
            if len(results) >= SELECTOR_RESULTS_MAX:
                results.clear()
            result = results[self.text] = self._result(device)
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    def _result(self, device: DeviceFacts) -> bool | str:
        """The result for a device, which is that of an equal one."""
        if self._reads is None:
            return self._evaluated(device)
        facts = self._reads.of(device)
        result = self.results.get(facts)
        if result is None:
            if len(self.results) >= SELECTOR_FACTS_MAX:
                self.results.clear()
            result = self.results[facts] = self._evaluated(device)
        return result

    def _evaluated(self, device: DeviceFacts) -> bool | str:
        """Whether it selects a device, or why it cannot be evaluated for it."""
        try:
            result = self._expression.eval(_ACTIVATIONS.of(device))
            kind = result.type().name()
            # Only these are read: reading a null loses a reference to None.
            if kind in ("BOOL", "ERROR"):
                value = result.value()
                return value if isinstance(value, bool) else _cause(value)
        except (RuntimeError, ValueError) as error:
            return _cause(error)
        except TypeError:  # an optional value has the type ERROR and cannot be read
            return "it evaluates to an optional value, not bool"
        return f"it evaluates to {kind.lower()}, not bool"


class _Activations:
    """The activation of the last device, whose other selectors are evaluated next."""

    def __init__(self) -> None:
        self._last: tuple[DeviceFacts, cel.Activation] | None = None

    def of(self, device: DeviceFacts) -> cel.Activation:
        """The activation of a device; ValueError for an invalid version or quantity."""
        if self._last is None or self._last[0] is not device:
            self._last = (device, environment().Activation({"device": variable(device)}))
        return self._last[1]


_ACTIVATIONS: Final = _Activations()


def compile_selector(text: str) -> Selector:
    """The selector of an expression; SelectorError if it cannot be compiled."""
    if len(text) > SELECTOR_LENGTH_MAX:
        raise SelectorError(f"it has more than {SELECTOR_LENGTH_MAX} characters")
    compiled = _compiled(text)
    if isinstance(compiled, str):
        raise SelectorError(compiled)
    return compiled


@lru_cache(maxsize=SELECTORS_MAX)
def _compiled(text: str) -> Selector | str:
    """The selector, or why there is none."""
    refused = refusal(text)
    if refused:
        return refused
    try:
        return Selector(text, environment().compile(completed(text), disable_check=True))
    except ImportError:
        return MISSING_PACKAGE
    except TypeError:
        return "it is not Unicode text"
    except RuntimeError as error:
        return _cause(error)


def _cause(error: object) -> str:
    """The cause of an error in a short line, without the library's code for it."""
    text = str(error)
    found = _COMPILER_ERROR.search(text)
    cause = found[1] if found else text.partition("\n")[0]
    return re.sub(r"^[A-Z_]+: ", "", cause)[:_CAUSE_LENGTH_MAX]
