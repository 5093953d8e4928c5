"""Blobs: whole or not at all, the same for the same path, and nowhere else than in their place."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.blobs import SMALL_BYTES, Blobs, WrongPath
from headrace.core.errors import NotFound, TooLarge

LEADS_ELSEWHERE = [
    "",
    "/etc/passwd",
    "a/../../b",
    "..",
    "a//b",
    "a/./b",
    "a\nb",
    "a\x00b",
    "a\x85b",
    "a\u2028b",
    "a\u2029b",
    "a\ud800b",
    "é/" * 400 + "x",
]
FOREIGN = ["raw/a\u00a0b.json", "raw/👩\u200d🚀.json", "raw/a\u200bb.json", "raw/%2e%2e/a+b?c#d&e.json"]
LARGE_BYTES = 12_000_000
"""More than the client library holds back before it sends a part."""


class BrokenOff(OSError):
    """Of whoever brings the pieces; of a kind that servers raise too."""


async def pieces(count: int, size: int, breaks: bool = False) -> AsyncIterator[bytes]:
    """Piece by piece, each of another letter; with an error after the last."""
    for number in range(count):
        yield bytes((97 + number % 26,)) * size
    if breaks:
        raise BrokenOff("the upload broke off")


async def streamed(blobs: Blobs, path: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in blobs.stream(path, start, end)])


async def listed(blobs: Blobs, prefix: str) -> list[str]:
    return sorted([path async for path in blobs.list(prefix)])


class BlobsContract:
    """Of `headrace.blobs.Blobs` in every place. Brings: `blobs`, prepared and empty."""

    async def test_what_was_put_is_got(self, blobs: Blobs) -> None:
        path = "raw/tiktok/vid 888é.json"
        for data in (b'{"a": 1}', b'{"a": 2}', b"", b"\x00\xff"):
            await blobs.put(path, data)
            assert await blobs.get(path, 100) == data
            assert await streamed(blobs, path) == data
            assert await blobs.size(path) == len(data)
        assert await listed(blobs, "raw") == [path]

    async def test_the_same_again_changes_nothing(self, blobs: Blobs) -> None:
        for _ in range(3):
            await blobs.put("raw/a.json", b"x")
            await blobs.put("raw/b.bin", pieces(3, 10))
        assert await listed(blobs, "raw") == ["raw/a.json", "raw/b.bin"]
        assert await blobs.get("raw/a.json", 10) == b"x"
        assert await blobs.get("raw/b.bin", 100) == b"a" * 10 + b"b" * 10 + b"c" * 10

    async def test_what_is_not_there_is_not_found(self, blobs: Blobs) -> None:
        with pytest.raises(NotFound, match=r"raw/none\.json"):
            await blobs.get("raw/none.json", 100)
        with pytest.raises(NotFound, match=r"raw/none\.json"):
            await blobs.size("raw/none.json")
        for start, end in ((0, None), (5, None), (5, 9), (9, 5)):
            with pytest.raises(NotFound, match=r"raw/none\.json"):
                await streamed(blobs, "raw/none.json", start, end)
        assert await listed(blobs, "raw") == []

    async def test_nothing_lies_below_a_blob(self, blobs: Blobs) -> None:
        await blobs.put("raw/a.json", b"x")
        with pytest.raises(NotFound):
            await blobs.get("raw/a.json/b.json", 100)

    @pytest.mark.parametrize("size", [0, 1, 100, SMALL_BYTES, SMALL_BYTES + 1])
    async def test_a_blob_over_the_limit_is_not_read(self, blobs: Blobs, size: int) -> None:
        await blobs.put("raw/large.json", b"x" * (size + 1))
        with pytest.raises(TooLarge, match="limit of"):
            await blobs.get("raw/large.json", size)
        await blobs.put("raw/large.json", b"x" * size)
        assert len(await blobs.get("raw/large.json", size)) == size

    async def test_a_large_blob_comes_and_goes_in_pieces(self, blobs: Blobs) -> None:
        size = LARGE_BYTES // 12
        await blobs.put("raw/large.bin", pieces(12, size))
        assert await blobs.size("raw/large.bin") == 12 * size
        got = [piece async for piece in blobs.stream("raw/large.bin")]
        assert max(map(len, got)) < LARGE_BYTES / 2
        assert b"".join(got) == b"".join([piece async for piece in pieces(12, size)])

    @pytest.mark.parametrize(
        ("start", "end", "found"),
        [
            (0, 3, b"012"),
            (2, 5, b"234"),
            (7, None, b"789"),
            (0, 100, b"0123456789"),
            (9, 100, b"9"),
            (10, None, b""),
            (10, 12, b""),
            (500, None, b""),
            (5, 5, b""),
            (0, 0, b""),
        ],
    )
    async def test_a_range_is_what_lies_in_it(self, blobs: Blobs, start: int, end: int | None, found: bytes) -> None:
        await blobs.put("raw/ten", b"0123456789")
        assert await streamed(blobs, "raw/ten", start, end) == found

    @pytest.mark.parametrize("count", [0, 1, 12])
    async def test_what_breaks_off_leaves_what_was_there(self, blobs: Blobs, count: int) -> None:
        """Also when much of it has been sent, and nothing is left of that."""
        size = LARGE_BYTES // 12
        with pytest.raises(BrokenOff):
            await blobs.put("raw/a.bin", pieces(count, size, breaks=True))
        assert await listed(blobs, "raw") == []
        await blobs.put("raw/a.bin", b"before")
        with pytest.raises(BrokenOff):
            await blobs.put("raw/a.bin", pieces(count, size, breaks=True))
        assert await blobs.get("raw/a.bin", 100) == b"before"
        assert await listed(blobs, "raw") == ["raw/a.bin"]

    async def test_deleting_twice_is_deleting(self, blobs: Blobs) -> None:
        await blobs.put("raw/a.json", b"x")
        await blobs.put("raw/b.json", b"y")
        for _ in range(2):
            await blobs.delete(["raw/a.json", "raw/never.json", "../up", "raw"])
        assert await listed(blobs, "raw") == ["raw/b.json"]

    async def test_a_list_holds_what_is_below_its_prefix(self, blobs: Blobs) -> None:
        wanted = [f"raw/{number:04}/{'x' * 20}.json" for number in range(60)]
        for path in (*wanted, "raw2/a.json", "other/raw/a.json"):
            await blobs.put(path, b"")
        assert await listed(blobs, "raw") == wanted
        assert await listed(blobs, "raw/0001") == [wanted[1]]

    @pytest.mark.parametrize("path", LEADS_ELSEWHERE)
    async def test_a_path_that_leads_elsewhere_is_refused(self, blobs: Blobs, path: str) -> None:
        with pytest.raises(WrongPath):
            await blobs.get(path, 100)
        with pytest.raises(WrongPath):
            await blobs.size(path)
        with pytest.raises(WrongPath):
            await streamed(blobs, path)
        for data in (b"", pieces(1, 1)):
            with pytest.raises(WrongPath):
                await blobs.put(path, data)

    @pytest.mark.parametrize("path", FOREIGN)
    async def test_a_path_of_somebody_elses_is_put_read_listed_and_deleted(self, blobs: Blobs, path: str) -> None:
        await put_read_and_deleted(blobs, path)
        await blobs.put(path, b"x")
        assert await listed(blobs, "raw") == [path]

    async def test_preparing_again_keeps_what_is_there(self, blobs: Blobs) -> None:
        await blobs.put("raw/a.json", b"x")
        for _ in range(2):
            await blobs.prepare()
        await blobs.answers()
        assert await blobs.get("raw/a.json", 10) == b"x"


async def put_read_and_deleted(blobs: Blobs, path: str) -> None:
    await blobs.put(path, b"x")
    assert await blobs.get(path, 10) == b"x"
    await blobs.delete([path])
    with pytest.raises(NotFound):
        await blobs.get(path, 10)
