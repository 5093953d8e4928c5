"""A simulated platform: posts like those of TikTok, Facebook or YouTube, made up and marked as such.

A post follows from (seed, platform, keyword, day, number) alone, so every page can be made again anywhere, in any order
and in any amount. For demonstrations and for load; a share of the posts may be broken on purpose.

    SMAP_CRAWLERS=*=simulated:posts=500&page=100&seed=7&broken=0.02&overlap=0.1&latency=0.05&huge=60000000
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from headrace.errors import CallerError
from headrace_smap.collector.crawlers import phrases
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.tasks import CrawlTask, Page, Post
from headrace_smap.days import begin_of, end_of

SOME_DAY = date(2025, 1, 1)
# `.example` is nobody's: an address on the real platform might be of a post that somebody did write.
PLACES = {
    "tiktok": "https://tiktok.example/@{author}/video/{id}",
    "facebook": "https://facebook.example/{author}/posts/{id}",
    "youtube": "https://youtube.example/watch?v={id}",
}
ELSEWHERE = "https://{author}.example/{id}"
# Where people share much and where they rather watch: views per follower, likes, comments and shares per view.
HABITS = {
    "tiktok": (3.0, 0.08, 0.006, 0.01),
    "facebook": (0.4, 0.05, 0.02, 0.015),
    "youtube": (1.2, 0.04, 0.008, 0.004),
}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Simulation:
    """`posts` per task in pages of `page`. Shares: `broken` of all posts, `overlap` that other keywords find too,
    `spam` that nobody wants. `latency` is how long a page takes, `huge` the size of broken posts that are too large (0:
    there are none)."""

    posts: int = 20
    page: int = 100
    seed: int = 1
    broken: float = 0.0
    overlap: float = 0.0
    spam: float = 0.08
    latency: float = 0.0
    huge: int = 0


def open_simulated(argument: str, kit: CrawlKit) -> SimulatedCrawler:
    """`posts=…&seed=…`: what is not said keeps its default."""
    kinds = {field.name: float if field.name in ("broken", "overlap", "spam", "latency") else int for field in _FIELDS}
    given: dict[str, Any] = {}
    for name, text in parse_qsl(argument, keep_blank_values=True):
        try:
            given[name] = kinds[name](text)
        except (KeyError, ValueError):
            raise CallerError(
                f"the simulated crawler cannot use {name}={text}", f"numbers for: {', '.join(kinds)}"
            ) from None
    simulation = Simulation(**given)
    if simulation.posts < 0 or simulation.page < 1:
        raise CallerError("the simulated crawler needs posts ≥ 0 and page ≥ 1")
    return SimulatedCrawler(simulation)


_FIELDS = fields(Simulation)


class SimulatedCrawler:
    """Makes up as many posts as it is told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def pages(self, task: CrawlTask, cursor: str | None) -> AsyncIterator[Page]:
        place, simulation = int(cursor or 0), self._simulation
        while place < simulation.posts:
            end = min(simulation.posts, place + simulation.page)
            if simulation.latency:
                await asyncio.sleep(simulation.latency)
            posts = [made_up(simulation, task, number) for number in range(place, end)]
            place = end
            yield Page(posts, str(place) if place < simulation.posts else None)

    async def close(self) -> None:
        """Nothing is open."""


def made_up(simulation: Simulation, task: CrawlTask, number: int) -> Post:
    """The post with this number of a task, always the same."""
    place = f"{simulation.seed}|{task.platform}|{task.day}|{number}"
    finder = task.keyword or task.url
    chance = random.Random(f"{place}|{finder}")
    # What several keywords find is one post: who looked for it is not part of its name.
    shared = random.Random(place).random() < simulation.overlap
    post_id = _id_of(task.platform, place if shared else f"{place}|{finder}")
    keyword = task.keyword or (chance.choice(task.keywords) if task.keywords else "")
    content = _content(simulation, task, keyword, chance)
    address = PLACES.get(task.platform, ELSEWHERE).format(author=content["author"]["id"], id=post_id)
    document = {"id": post_id, "platform": task.platform, "url": address, "keyword": keyword, **content}
    if chance.random() < simulation.broken:
        return Post(post_id, _broken(simulation, document, chance))
    return Post(post_id, _encode(document))


def _content(simulation: Simulation, task: CrawlTask, keyword: str, chance: random.Random) -> dict[str, Any]:
    language = "vi" if chance.random() < 0.7 else "en"
    if chance.random() < simulation.spam:
        template = chance.choice(phrases.SPAM[language])
        text = template.format(it=keyword, tag=_tag(keyword), number=chance.randrange(10_000))
    else:
        text = _opinion(language, keyword, chance)
    followers = int(chance.paretovariate(0.8) * 50)
    return {
        "text": text,
        "author": _author(followers, chance),
        "metrics": _metrics(task.platform, followers, chance),
        "hashtags": [word.strip("#,.!?") for word in text.split() if word.startswith("#")],
        "published_at": _moment(task, chance).isoformat().replace("+00:00", "Z"),
        "simulated": True,
    }


def _moment(task: CrawlTask, chance: random.Random) -> datetime:
    first = date.fromisoformat(task.start) if task.start else SOME_DAY
    last = date.fromisoformat(task.end) if task.end else first
    day = first + timedelta(days=chance.randint(0, (last - first).days))
    begin = begin_of(day, task.zone)
    return begin + timedelta(seconds=chance.randrange(int((end_of(day, task.zone) - begin).total_seconds())))


def _opinion(language: str, keyword: str, chance: random.Random) -> str:
    mood = chance.choices(("good", "bad", "mixed"), (5, 3, 2))[0]
    aspects = chance.sample(sorted(phrases.GOOD[language]), chance.randint(1, 3))
    said = []
    for place, aspect in enumerate(aspects):
        good = mood == "good" or (mood == "mixed" and place % 2 == 0)
        said.append(chance.choice((phrases.GOOD if good else phrases.BAD)[language][aspect]))
    glue = (" nhưng " if language == "vi" else " but ") if mood == "mixed" else ", "
    text = f"{chance.choice(phrases.OPENINGS[language]).format(it=keyword)} {glue.join(said)}. "
    text += chance.choice((*phrases.QUESTIONS[language], *phrases.CLOSINGS[language][mood]))
    if language == "vi" and chance.random() < 0.35:
        for word, short in phrases.TEENCODE.items():
            text = text.replace(word, short)
    if chance.random() < 0.5:
        text += " " + chance.choice(phrases.GOOD_EMOJI if mood == "good" else phrases.BAD_EMOJI) * chance.randint(1, 3)
    if chance.random() < 0.6:
        text += f" #{_tag(keyword)} #{chance.choice(phrases.TAGS[language])}"
    return " ".join(text.split())


def _author(followers: int, chance: random.Random) -> dict[str, Any]:
    # Reports and exports show the name, so nobody takes the post for a real one.
    name = f"{chance.choice(phrases.FAMILY_NAMES)} {chance.choice(phrases.GIVEN_NAMES)} (simulated)"
    return {"id": f"user{chance.randrange(5_000):04d}", "name": name, "followers": followers}


def _metrics(platform: str, followers: int, chance: random.Random) -> dict[str, int]:
    reach, liking, talking, sharing = HABITS.get(platform, HABITS["facebook"])
    views = int(followers * reach * chance.lognormvariate(0, 0.8)) + chance.randrange(20)
    return {
        "likes": int(views * liking * chance.uniform(0.3, 2)),
        "comments": int(views * talking * chance.uniform(0.1, 3)),
        "shares": int(views * sharing * chance.uniform(0.1, 2)),
        "views": views,
    }


def _broken(simulation: Simulation, document: Mapping[str, Any], chance: random.Random) -> bytes:
    """A post as it may come: no JSON, another encoding, without its text, cut off, or far too large."""
    whole = _encode(document)
    kinds = ("json", "encoding", "fields", "truncated", *(("huge",) if simulation.huge else ()))
    match chance.choice(kinds):
        case "json":
            return b"<html>" + whole
        case "encoding":
            return str(document["text"]).join(('{"text": "ă', '"}')).encode("utf-16")
        case "fields":
            return _encode({name: value for name, value in document.items() if name != "text"})
        case "truncated":
            return whole[: len(whole) // 2]
        case _:
            return _encode({**document, "text": "dài " * (simulation.huge // 4)})


def _id_of(platform: str, name: str) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    if platform == "youtube":
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return f"{int.from_bytes(digest, 'big'):020d}"


def _tag(keyword: str) -> str:
    return "".join(letter for letter in keyword if letter.isalnum()) or "post"
