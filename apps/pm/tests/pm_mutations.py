"""Files that somebody spoilt: by chance, and by knowing where pointers are."""

from __future__ import annotations

import random

from pm_messages import several

from headrace_pm.network.message_writer import MessageWriter, Pads
from headrace_pm.wire.packed import pack

# Numbers at which a reader's arithmetic may go wrong, as pointers and as lengths.
ODD_WORDS = (
    0,
    1,
    0xFFFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    0xFFFF_FFFF_0000_0001,
    1 | (7 | 0x1FFF_FFFF << 3) << 32,
    1 | (0 | 0x1FFF_FFFF << 3) << 32,
    1 | (2 | 0x1FFF_FFFF << 3) << 32,
    0xFFFF_FFFC | 2 << 32,
    0xFFFF_FFFC,
    2,
    6,
    2 | 1 << 32,
    6 | 1 << 32 | 8 << 3,
    3,
    0xFFFF_FFFD | (7 | 4 << 3) << 32,
)


def seeds() -> list[bytes]:
    """Good files of every form: the stock of all others."""
    objects = several(9, 14)
    plain = [
        MessageWriter(words, pads).write(b"HN01", objects)
        for words in (0, 40, 128)
        for pads in (Pads.SINGLE, Pads.DOUBLE)
    ]
    both = plain[0] + plain[2]
    return [*plain, both, *(pack(each) for each in (plain[0], plain[3]))]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The file with some changes. Most are of whole words, which in these files are pointers as often as not."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        words = max(1, len(changed) // 8)
        at = 8 * min(chance.randrange(words), chance.randrange(words))
        match chance.randrange(9):
            case 0:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            case 1:
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                changed[at : at + 8] = chance.choice(ODD_WORDS).to_bytes(8, "little")
            case 3:
                # A pointer of another place: it leads somewhere near.
                other = 8 * chance.randrange(words)
                changed[at : at + 8] = changed[other : other + 8]
            case 4:
                word = int.from_bytes(changed[at : at + 8], "little")
                changed[at : at + 8] = (word ^ 1 << chance.randrange(64)).to_bytes(8, "little")
            case 5:
                word = int.from_bytes(changed[at : at + 8], "little") + chance.choice(
                    (-4, 4, 1 << 35, -(1 << 35), 1 << 48)
                )
                changed[at : at + 8] = (word % (1 << 64)).to_bytes(8, "little")
            case 6:
                del changed[chance.randrange(len(changed)) :]
            case 7:
                changed[at:at] = changed[at : at + 8 * chance.randrange(1, 5)]
            case 8:
                changed[at : at + 8] = chance.randbytes(8)
        if not changed:
            break
    return bytes(changed)
