"""Ways to spoil a plain message so that nobody can ever read it. Each takes the words of a message in one segment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
# The table, the root pointer, the pointers to unit and data: so a message of ours begins.
_UNIT, _DATA = 2, 3


def damaged(plain: bytes, which: int) -> bytes:
    """The message with one of the damages, in turn."""
    words = np.frombuffer(plain, "<u8").copy()
    DAMAGES[which % len(DAMAGES)](words)
    return words.tobytes()


def _target(words: Words, pointer: int) -> int:
    return pointer + 1 + (int(words[pointer]) >> 2 & 0x3FFF_FFFF)


def _lead_outside(words: Words) -> None:
    """The list of objects begins behind the end."""
    words[_DATA] = int(words[_DATA]) | len(words) << 2


def _claim_elements(words: Words) -> None:
    """The list of objects has more than it has room for."""
    words[_target(words, _DATA)] |= 0x3FFF_FFFF << 2


def _open_a_text(words: Words) -> None:
    """The name of the element does not end."""
    text, count = _target(words, _UNIT), int(words[_UNIT]) >> 35
    words.view(np.uint8)[8 * text + count - 1] = ord("!")


def _be_noise(words: Words) -> None:
    """No message at all."""
    words[:] = 0xFFFF_FFFF_FFFF_FFFF


DAMAGES: tuple[Callable[[Words], None], ...] = (_lead_outside, _claim_elements, _open_a_text, _be_noise)
