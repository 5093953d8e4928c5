"""Bit planes: the ends of a chunk's items, two bits each, as Python integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def ones(count: int) -> int:
    return (1 << count) - 1


def indexes(bits: int) -> Iterator[int]:
    """Positions of set bits, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def of(positions: Iterable[int]) -> int:
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def to_bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def from_bytes(data: bytes | None) -> int:
    return int.from_bytes(data or b"", "little")
