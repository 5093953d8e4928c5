"""What a reader should know before believing a figure: the key of a text and what is filled in, in no language yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Note:
    """`key` names a text of the report (`note.<key>`). A tuple among the values is a list of names or days."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)
