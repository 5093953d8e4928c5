"""What a process remembers of projects to spare itself questions. Forgetting is harmless; beyond a limit it happens."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")
REMEMBERED_MAX = 10_000


class Remembered(Generic[T]):
    """One value per project, those of the newest projects."""

    def __init__(self, limit: int = REMEMBERED_MAX) -> None:
        self._values: dict[str, T] = {}
        self._limit = limit

    def get(self, project: str) -> T | None:
        return self._values.get(project)

    def put(self, project: str, value: T) -> T:
        self._values.pop(project, None)
        self._values[project] = value
        if len(self._values) > self._limit:
            del self._values[next(iter(self._values))]
        return value

    def forget(self, project: str) -> None:
        self._values.pop(project, None)
