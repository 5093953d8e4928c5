"""Which tests of a contract are an adapter's tests: what it declares not to do is left out when they are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])
NEEDS = "needs"


def needs(feature: str, of: str = "features") -> Callable[[Test], Test]:
    """A test for those that have this feature; `of` names the attribute of the class that declares it."""

    def mark(test: Test) -> Test:
        vars(test)[NEEDS] = (of, feature)
        return test

    return mark


class Selected:
    """A contract whose tests may need features."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in dir(cls):
            needed = getattr(getattr(cls, name), NEEDS, None)
            if needed is not None and not getattr(getattr(cls, needed[0]), needed[1]):
                setattr(cls, name, None)
