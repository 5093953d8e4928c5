"""Settings of a program: declared once as a frozen dataclass, read once at the edge, and then passed in.

    @dataclass(frozen=True, slots=True)
    class Settings:
        http_port: int = setting(8080, "where to listen; 0: any free port", low=0, high=65_535)
        api_key: str = setting("", "asked of every request", secret=True, without="loopback only")

    settings = read(Settings, Sources("SHOP_", os.environ, flags={"http_port": port}))

A flag beats the environment, which beats a file. An empty variable states nothing. What cannot work is refused with the
name under which it was given; the value of a secret appears in no message and no `repr`. The tables of the docs
(`table`) and the help of a command (`help_of`) are made from the same declaration.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.core.errors import CallerError

T = TypeVar("T")
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_KEY, _WHOLE = "headrace.setting", "headrace.environment"
_KINDS: dict[Any, str] = {int: "whole number", float: "number", bool: "switch", Path: "path", str: "text"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one setting beside its name, type and default.

    `without` says what holds when it is not set, where the default does not say it by itself. `parse` makes the value
    of a text by itself; what is wrong with one it says by a ValueError. `variable` is a name in the environment that
    does not follow from the prefix.
    """

    doc: str
    low: float = -math.inf
    high: float = math.inf
    secret: bool = False
    without: str | None = None
    parse: Callable[[str], Any] | None = None
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where settings may come from. A flag that is None was not given; `file` is a document that was read already."""

    prefix: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    flags: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting as its class declares it."""

    name: str
    variable: str
    kind: Any
    default: Any
    facts: Facts

    @property
    def without(self) -> str:
        """What holds without it, as the docs say it."""
        if self.facts.without is not None:
            return self.facts.without
        if self.default is None or self.default in ("", ()):
            return "–"
        if isinstance(self.default, bool):
            return YES[0] if self.default else NO[0]
        if isinstance(self.default, int | float):
            return f"{self.default:,}" if isinstance(self.default, int) else f"{self.default:g}"
        return f"`{','.join(self.default) if isinstance(self.default, tuple) else self.default}`"

    @property
    def bounds(self) -> str:
        low, high = self.facts.low, self.facts.high
        if low == -math.inf and high == math.inf:
            return ""
        if high == math.inf:
            return f"{_plain(low)} or more"
        return f"at most {_plain(high)}" if low == -math.inf else f"from {_plain(low)} to {_plain(high)}"


def setting(default: T, doc: str, **facts: Any) -> T:
    """A field of a settings class. `facts` are those of `Facts`."""
    known = Facts(doc, **facts)
    shown, metadata = not known.secret, {_KEY: known}
    if type(default).__hash__ is None:
        # Such as a mapping, which a dataclass takes from a factory only.
        shared: T = field(default_factory=lambda: default, repr=shown, metadata=metadata)
        return shared
    made: T = field(default=default, repr=shown, metadata=metadata)
    return made


def whole_environment() -> Mapping[str, str]:
    """A field that holds the environment as it was read: for processes that are started with it, and for parts that
    have settings of their own."""
    made: Mapping[str, str] = field(default_factory=dict, repr=False, metadata={_WHOLE: True})
    return made


def read(kind: type[T], sources: Sources) -> T:
    """The settings by precedence; raises `CallerError` with the name of the first that cannot work."""
    known = {one.name: one for one in declared(kind, sources.prefix)}
    for name in sources.file:
        if name not in known:
            raise CallerError(
                f"{sources.file_name} sets {name!r}, which is no setting", f"settings: {', '.join(known)}"
            )
    given = {name: value for one in known.values() for name, value in _given(one, sources)}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return kind(**given, **{each.name: dict(sources.environment) for each in fields if _WHOLE in each.metadata})


def declared(kind: type[Any], prefix: str) -> Iterator[Declared]:
    """What a class declares, in its order; fields without `setting` are none."""
    hints = typing.get_type_hints(kind)
    for each in dataclasses.fields(kind):
        facts = each.metadata.get(_KEY)
        if facts is not None:
            variable = facts.variable or f"{prefix}{each.name.upper()}"
            default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
            yield Declared(each.name, variable, _plain_kind(hints[each.name]), default, facts)


def table(kind: type[Any], prefix: str) -> str:
    """The table of the docs: one row for each variable."""
    rows = (f"| `{one.variable}` | {one.facts.doc} | {one.without} |" for one in declared(kind, prefix))
    return "\n".join(("| variable | meaning | without it |", "| --- | --- | --- |", *rows))


def help_of(kind: type[Any], prefix: str, name: str) -> str:
    """The help of the flag that is above this setting."""
    one = next(each for each in declared(kind, prefix) if each.name == name)
    return f"{one.facts.doc[:1].upper()}{one.facts.doc[1:]} ({one.variable})."


def _given(one: Declared, sources: Sources) -> Iterator[tuple[str, Any]]:
    """The value of the first source that states one, if any does."""
    stated = (sources.environment.get(one.variable) or "").strip()
    for source, value in (
        (f"--{one.name.replace('_', '-')}", sources.flags.get(one.name)),
        (one.variable, stated or None),
        (f"{sources.file_name}: {one.name}", sources.file.get(one.name)),
    ):
        if value is not None:
            yield one.name, _bounded(one, source, _parsed(one, source, value))
            return


def _parsed(one: Declared, source: str, value: Any) -> Any:
    shown = "…" if one.facts.secret else repr(value)
    try:
        if one.facts.parse is not None and isinstance(value, str):
            return one.facts.parse(value)
        return _typed(one.kind, value)
    except (TypeError, ValueError) as error:
        said = str(error) if one.facts.parse is not None else f"is not a {_KINDS.get(one.kind, 'list of texts')}"
        hint = one.bounds or one.facts.doc
        raise CallerError(f"{source} = {shown} {said}", hint) from None


def _bounded(one: Declared, source: str, value: Any) -> Any:
    if isinstance(value, int | float) and not one.facts.low <= value <= one.facts.high:
        raise CallerError(f"{source} = {value:g} is not {one.bounds}", one.facts.doc)
    return value


def _typed(kind: Any, value: Any) -> Any:
    """A value of this kind, of the text of a variable or of what a file or a command gives."""
    if kind is bool:
        return _switch(value)
    if isinstance(value, bool):
        raise TypeError
    if kind is int:
        return value if isinstance(value, int) else int(_digits(value))
    if kind is float:
        number = float(value) if isinstance(value, int | float) else float(_digits(value))
        if not math.isfinite(number):
            raise ValueError
        return number
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is str and isinstance(value, str):
        return value
    if typing.get_origin(kind) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())
    raise TypeError


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in (*YES, *NO):
        raise ValueError
    return word in YES


def _digits(text: Any) -> str:
    """Python reads more as a number than people write: other scripts, underscores."""
    if not isinstance(text, str) or not text.isascii() or "_" in text:
        raise ValueError
    return text


def _plain_kind(hint: Any) -> Any:
    """`int` of `int | None`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def _plain(limit: float) -> str:
    return f"{limit:,.0f}" if limit == int(limit) else f"{limit:g}"
