"""What a warm reader keeps: files of Iceberg never change, so what was read of one holds for ever."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")


class Kept(Generic[V]):
    """The values that were asked for last, by path, up to a total size; any number of threads may ask."""

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        """`size_of` gives a value's size in the unit of `max_size`."""
        self._max_size = max_size
        self._size_of = size_of
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, path: str, read: Callable[[], V]) -> V:
        """Return what is kept for a path, or read and keep it. Two threads may read the same once each."""
        with self._lock:
            if path in self._values:
                self._values.move_to_end(path)
                return self._values[path][0]
        value = read()
        size = self._size_of(value)
        with self._lock:
            if path not in self._values and size <= self._max_size:
                self._values[path] = (value, size)
                self._size += size
                while self._size > self._max_size:
                    _, (_, dropped) = self._values.popitem(last=False)
                    self._size -= dropped
        return value
