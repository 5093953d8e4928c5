"""Ready feeds: where an API is asked and where its answers have what a post needs.

    SMAP_CRAWLERS=youtube=feed:#recipe=youtube-data

A recipe is a set of options of the feed crawler; what the setting says itself goes first. Tokens are named here by
their variables and are nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

RSS = "rss"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The address that is asked unless the setting names one, and options."""

    address: str
    options: Mapping[str, str]


_YOUTUBE = "https://www.googleapis.com/youtube/v3/search?part=snippet&type=video&order=date&maxResults=50&q={keyword}"
_GRAPH_FIELDS = "id,message,created_time,permalink_url,from,shares"
_GRAPH_FIELDS += ",reactions.limit(0).summary(true),comments.limit(0).summary(true)"
_GRAPH = f"https://graph.facebook.com/v23.0/{{target}}/posts?limit=100&fields={_GRAPH_FIELDS}"

RECIPES: Mapping[str, Recipe] = {
    # A search tells no counters: they are asked for by the ids of what was found, up to 50 at once.
    "youtube-data": Recipe(
        f"{_YOUTUBE}&publishedAfter={{start_at}}&publishedBefore={{end_at}}",
        {
            "format": "json",
            "items": "items",
            "cursor": "nextPageToken",
            "cursor_param": "pageToken",
            "details": "videos?part=snippet,statistics&maxResults=50&id={ids}",
            "details_id": "id.videoId",
            "id": "id",
            "text": "{snippet.title}\n{snippet.description}",
            "published_at": "snippet.publishedAt",
            "author": "snippet.channelTitle",
            "likes": "statistics.likeCount",
            "comments": "statistics.commentCount",
            "views": "statistics.viewCount",
            "permalink": "https://www.youtube.com/watch?v={id}",
            "header": "X-Goog-Api-Key: env:SMAP_TOKEN_YOUTUBE",
            "robots": "ignore",
        },
    ),
    "youtube-atom": Recipe(
        "https://www.youtube.com/feeds/videos.xml?channel_id={target}",
        {
            "format": "rss",
            "author": "author",
            "likes": "media:starRating@count",
            "views": "media:statistics@views",
            "permalink": "link",
        },
    ),
    # Its next links would carry the token; cursors do not.
    "graph": Recipe(
        f"{_GRAPH}&since={{start_at}}&until={{end_at}}",
        {
            "format": "json",
            "items": "data",
            "cursor": "paging.cursors.after",
            "cursor_param": "after",
            "text": "message",
            "published_at": "created_time",
            "author": "from.name",
            "likes": "reactions.summary.total_count",
            "comments": "comments.summary.total_count",
            "shares": "shares.count",
            "permalink": "permalink_url",
            "header": "Authorization: Bearer env:SMAP_TOKEN_GRAPH",
            "robots": "ignore",
        },
    ),
    RSS: Recipe(
        "",
        {
            "format": "rss",
            "views": "media:statistics@views",
            "likes": "media:statistics@favorites",
            "comments": "slash:comments|thr:total",
            "permalink": "link",
        },
    ),
}


def feed_address(argument: str) -> str:
    """The address that a feed's setting leads to: its own, or that of its recipe; empty if there is none."""
    address, _, fragment = argument.partition("#")
    recipe = RECIPES.get(dict(parse_qsl(fragment)).get("recipe", ""))
    return address or (recipe.address if recipe else "")
