"""Reading blobs, many at a time, without ever holding more than a bounded number of bytes.

A server that is away, or does not let us in any more, is nobody's fault: the error is raised and everything waits. A
blob that cannot be read while another can is the fault of its post. Large blobs are left for later, when they are read
one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from headrace.blobs import Blobs, WrongPath
from headrace.errors import NotFound, TooLarge, Unreachable
from headrace.services import Backoff
from headrace_smap.analytics.posts import Fault, HandledPost

SMALL_BYTES_MAX = 262_144
TRIES = 3
# A blob that was written a moment ago may take this long to be seen everywhere.
PAUSES = Backoff(0.1, 0.2)
UNREADABLE = Fault("blob_unreadable", "the blob cannot be read, though others can")


class BlobFetcher:
    """`fetches` at a time for the whole process, shared by `lanes` batches at a time: more readers than its share only
    wake each other up. A post of more than `post_bytes_max` is not read at all."""

    def __init__(self, blobs: Blobs, fetches: int, post_bytes_max: int, lanes: int = 1) -> None:
        self._blobs, self._bytes_max = blobs, post_bytes_max
        self._readers = max(1, fetches // lanes)
        self._turn = asyncio.Semaphore(fetches)
        self._readable = ""

    async def small(self, posts: Sequence[HandledPost]) -> list[HandledPost]:
        """Give every post its `raw` or its fault; the answer are those whose blobs are large, still without.

        Raises `Unreachable` while the server is away."""
        limit = min(SMALL_BYTES_MAX, self._bytes_max)
        rest = list(posts)
        large: list[HandledPost] = []
        for failures in range(TRIES):
            await self._pause(failures)
            unread: list[HandledPost] = []
            await self._spread(rest, limit, large, unread)
            rest = unread
            if not rest:
                break
            await self._others_can_be_read(rest[0].path)
        for post in rest:
            post.fault = UNREADABLE
        if limit == self._bytes_max:
            large = self._too_large(large)
        return large

    async def large(self, post: HandledPost) -> None:
        """The same for one large blob."""
        for failures in range(TRIES):
            await self._pause(failures)
            large: list[HandledPost] = []
            unread: list[HandledPost] = []
            await self._read(post, self._bytes_max, large, unread)
            if large:
                self._too_large(large)
            if not unread:
                return
            await self._others_can_be_read(post.path)
        post.fault = UNREADABLE

    async def _pause(self, failures: int) -> None:
        if failures:
            await asyncio.sleep(PAUSES.pause_s(failures))

    async def _spread(
        self, posts: list[HandledPost], limit: int, large: list[HandledPost], unread: list[HandledPost]
    ) -> None:
        """A few readers share the posts: nothing is made per post but the call itself."""
        waiting = iter(posts)

        async def reader(mine: Iterable[HandledPost]) -> None:
            for post in mine:
                async with self._turn:
                    await self._read(post, limit, large, unread)

        await asyncio.gather(*(reader(waiting) for _ in range(min(len(posts), self._readers))))

    async def _read(self, post: HandledPost, limit: int, large: list[HandledPost], unread: list[HandledPost]) -> None:
        try:
            post.raw = await self._blobs.get(post.path, limit)
            self._readable = post.path
        except TooLarge:
            large.append(post)
        except Unreachable:
            unread.append(post)
        except NotFound:
            post.fault = Fault("blob_missing", "there is no blob at this path")
        except WrongPath as error:
            post.fault = Fault("blob_path", str(error))

    async def _others_can_be_read(self, path: str) -> None:
        """Raises if it is the place that cannot be read, and not just this blob. What could be read before says more
        than any other question: it needs the same line, the same bucket or one like it, and the same rights."""
        if self._readable:
            try:
                await self._blobs.get(self._readable, SMALL_BYTES_MAX)
                return
            except (NotFound, TooLarge):
                self._readable = ""
        await self._blobs.answers(path)

    def _too_large(self, posts: list[HandledPost]) -> list[HandledPost]:
        for post in posts:
            post.fault = Fault("blob_too_large", f"the blob has more than {self._bytes_max:,} bytes")
        return []
