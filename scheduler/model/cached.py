"""A property that is computed once per object, without the lock of ``functools.cached_property``.

That lock costs more than most of the values until Python 3.12, which has none. The state has one
writer, so no two threads compute a value of one object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 - used like property
    """A method whose first result is kept in the object's ``__dict__``."""

    def __init__(self, compute: Callable[..., T]) -> None:
        self._compute = compute
        self._name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> cached[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
