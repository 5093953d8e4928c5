"""Blobs: put, get, stream, list and delete, in a bucket or in a directory alike.

A blob is written whole or not at all, also when it comes in pieces and the writer is killed on the way. Nothing is read
into memory without a limit: `get` has one, and `stream` is for what is larger.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any

from headrace.blobs.paths import WrongPath
from headrace.blobs.places import BlobPlace
from headrace.core.errors import NotFound, TooLarge, Unreachable

DELETES_AT_ONCE = 20
SMALL_BYTES = 1_048_576
PIECE_BYTES = 1_048_576
"""A stream's pieces have about this size: large enough to cost little each, and a hundred of them fit into memory."""
_BEYOND = re.compile("InvalidRange|Requested range was invalid|416")


class Blobs:
    """A bucket or a directory. Any number of calls may run at once.

    `Unreachable`: the server does not answer, and the same call later may work. `NotFound`: there is no such blob.
    `setting` is the name under which the URL was given, for errors; `environment` has the keys of S3.
    """

    def __init__(self, url: str, environment: Mapping[str, str], setting: str) -> None:
        self._place = BlobPlace(url, environment, setting)

    async def prepare(self) -> None:
        """Make the bucket or the directory if it is missing."""
        await self._place.make()

    async def put(self, path: str, data: bytes | AsyncIterable[bytes]) -> None:
        """Write a blob, whole or not at all, in one piece or in several; again with the same bytes is harmless. If the
        pieces end with an error, that is raised, and what was there stays. A bucket that only the path names is made
        if need be, for a blob in one piece."""
        if not isinstance(data, bytes):
            await self._put_pieces(path, data)
            return
        try:
            await self._put(path, data)
        except NotFound:
            if self._place.bucket or self._place.directory:
                raise
            await self._place.make_bucket(path.partition("/")[0])
            await self._put(path, data)

    async def _put(self, path: str, data: bytes | AsyncIterator[bytes]) -> None:
        import obstore

        client, key = self._place.of(path)
        with self._place.words(path):
            await obstore.put_async(client, key, data)

    async def _put_pieces(self, path: str, pieces: AsyncIterable[bytes]) -> None:
        broken: list[BaseException] = []

        async def watched() -> AsyncIterator[bytes]:
            try:
                async for piece in pieces:
                    yield piece
            except BaseException as error:  # the error of whoever brings the pieces must not be taken for the place's
                broken.append(error)
                raise

        try:
            await self._put(path, watched())
        except Exception:
            if broken:
                raise broken[0] from None
            raise

    async def get(self, path: str, bytes_max: int) -> bytes:
        """A blob's bytes. `TooLarge`: there are more than `bytes_max`, and they were not read."""
        import obstore

        client, key = self._place.of(path)
        if bytes_max <= SMALL_BYTES and (small := await self._small(client, key, bytes_max)) is not None:
            return small
        with self._place.words(path):
            answer = await obstore.get_async(client, key)
            if (size := int(answer.meta["size"])) > bytes_max:
                raise TooLarge(f"the blob has {size:,} bytes, which is over the limit of {bytes_max:,}")
            return bytes(await answer.bytes_async())

    async def _small(self, client: Any, key: str, bytes_max: int) -> bytes | None:
        """One call where `get` needs two, at two thirds of the cost *measured*. None: ask the other way, which knows
        what is wrong; a range of an empty blob, for instance, is an error."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            data = bytes(await obstore.get_range_async(client, key, start=0, end=bytes_max + 1))
        except (BaseError, OSError):
            return None
        if len(data) > bytes_max:
            raise TooLarge(f"the blob has more bytes than the limit of {bytes_max:,}")
        return data

    async def stream(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """A blob's bytes in pieces, from `start` up to `end` or to its own end; what is beyond that is nothing."""
        import obstore
        from obstore.exceptions import BaseError

        client, key = self._place.of(path)
        if end is not None and end <= start:
            await self.size(path)
            return
        wanted: Any = {"range": {"offset": start} if end is None else (start, end)} if start or end else {}
        with self._place.words(path):
            try:
                answer = await obstore.get_async(client, key, options=wanted)
            except (BaseError, OSError) as error:
                # Servers and directories differ in how they say it, so the size is asked.
                if wanted and _BEYOND.search(str(error)) and start >= await self.size(path):
                    return
                raise
            async for piece in answer.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    async def size(self, path: str) -> int:
        """How many bytes a blob has."""
        import obstore

        client, key = self._place.of(path)
        with self._place.words(path):
            try:
                return int((await obstore.head_async(client, key))["size"])
            except FileNotFoundError:
                # The answer to a HEAD has no body to say that it is the bucket that is missing.
                return int((await obstore.get_async(client, key)).meta["size"])

    async def delete(self, paths: Iterable[str]) -> None:
        """Remove blobs; one that is not there is removed, and so is one that cannot be there."""
        import obstore

        turn = asyncio.Semaphore(DELETES_AT_ONCE)

        async def one(path: str) -> None:
            async with turn:
                with contextlib.suppress(NotFound, WrongPath), self._place.words(path):
                    await obstore.delete_async(*self._place.of(path))

        await asyncio.gather(*(one(path) for path in paths))

    async def list(self, prefix: str) -> AsyncIterator[str]:
        """The paths below a prefix, as `get` and `delete` take them."""
        import obstore

        client, key = self._place.of(prefix)
        bucket = prefix.removesuffix(key)
        with self._place.words(prefix):
            async for page in obstore.list(client, key):
                for found in page:
                    yield f"{bucket}{found['path']}"

    async def answers(self, path: str = "") -> None:
        """Raise `Unreachable` if the place does not answer, or does not let us in. Where only paths name buckets, that
        of `path` is asked."""
        place = self._place
        if place.directory:
            if not await asyncio.to_thread(place.directory.is_dir):
                raise Unreachable(f"there is no directory {place.directory}")
            return
        bucket = "" if place.bucket else f"{path.partition('/')[0]}/"
        if not place.bucket and not path and await place.ask("GET", place.endpoint) >= 500:
            raise Unreachable(f"{place.endpoint} answers, and not well", "is the S3 server all right?")
        if place.bucket or path:
            with contextlib.suppress(NotFound):
                await self.get(f"{bucket}headrace/answers", 1)
