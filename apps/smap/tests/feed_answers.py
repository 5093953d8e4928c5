"""Answers in the shape of YouTube's Data API and Atom feeds, the Graph API, and RSS with counters."""

from __future__ import annotations

import json
from typing import Any

GRAVE = "VF3 mất phanh, cháy, cực kỳ nguy hiểm, quá tệ, thất vọng"


def youtube_search(ids: list[str], following: str | None = None) -> bytes:
    """`search.list`: no counters, and the id is an object."""
    items = [
        {
            "kind": "youtube#searchResult",
            "etag": "x",
            "id": {"kind": "youtube#video", "videoId": each},
            "snippet": {"publishedAt": "2025-01-02T03:04:05Z", "channelId": "UC1", "title": "cut off …"},
        }
        for each in ids
    ]
    document: dict[str, Any] = {"kind": "youtube#searchListResponse", "regionCode": "VN", "items": items}
    document["pageInfo"] = {"totalResults": 1_000_000, "resultsPerPage": 50}
    return json.dumps({**document, "nextPageToken": following} if following else document).encode()


def youtube_videos(ids: list[str]) -> bytes:
    """`videos.list`: counters are texts, and one that is switched off is not there."""
    items = [
        {
            "kind": "youtube#video",
            "etag": "y",
            "id": each,
            "snippet": {
                "publishedAt": "2025-01-02T03:04:05Z",
                "channelId": "UC1",
                "channelTitle": "Kênh Xe",
                "title": GRAVE,
                "description": "Xem hết video nhé",
                "tags": ["xe"],
            },
            "statistics": {"viewCount": "5000000", "likeCount": "90000", "favoriteCount": "0", "commentCount": "20000"},
        }
        for each in ids
    ]
    return json.dumps({"kind": "youtube#videoListResponse", "items": items}).encode()


def graph_posts(token: str, count: int, after: str | None) -> bytes:
    """The posts of a page. Its links repeat the token that the request was made with."""
    posts = [
        {
            "id": f"100_{number}{after or ''}",
            "message": GRAVE,
            "created_time": "2025-01-02T03:04:05+0000",
            "permalink_url": f"https://www.facebook.com/100/posts/{number}",
            "from": {"name": "VinFast", "id": "100"},
            "shares": {"count": 900},
            "reactions": {"data": [], "summary": {"total_count": 12_000, "viewer_reaction": "NONE"}},
            "comments": {"data": [], "summary": {"order": "ranked", "total_count": 3_400, "can_comment": False}},
        }
        for number in range(count)
    ]
    paging = {"cursors": {"before": "b", "after": after}, "next": f"https://graph.facebook.com/x?access_token={token}"}
    return json.dumps({"data": posts, **({"paging": paging} if after else {})}).encode()


YOUTUBE_ATOM = f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns:yt="http://www.youtube.com/xml/schemas/2015" xmlns:media="http://search.yahoo.com/mrss/"
 xmlns="http://www.w3.org/2005/Atom"><id>yt:channel:UC1</id><yt:channelId>UC1</yt:channelId><title>Kênh Xe</title>
<entry><id>yt:video:AAA</id><yt:videoId>AAA</yt:videoId><title>{GRAVE}</title>
<link rel="alternate" href="https://www.youtube.com/watch?v=AAA"/>
<author><name>Kênh Xe</name><uri>https://www.youtube.com/channel/UC1</uri></author>
<published>2025-01-02T03:04:05+00:00</published><updated>2025-01-03T03:04:05+00:00</updated>
<media:group><media:title>{GRAVE}</media:title><media:description>Xem hết video nhé</media:description>
<media:community><media:starRating count="90000" average="5.00" min="1" max="5"/>
<media:statistics views="5000000"/></media:community></media:group></entry></feed>""".encode()

RSS_COUNTED = f"""<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"
 xmlns:slash="http://purl.org/rss/1.0/modules/slash/" xmlns:m="http://search.yahoo.com/mrss/">
<channel><title>Tin xe</title><item><guid isPermaLink="false">n1</guid><title>{GRAVE}</title>
<link>https://news.example/1</link><pubDate>Thu, 02 Jan 2025 03:04:05 GMT</pubDate>
<slash:comments>340</slash:comments><m:statistics views="800000" favorites="12"/></item>
<item><guid isPermaLink="false">n2</guid><title>{GRAVE}</title><link>https://news.example/2</link>
<pubDate>Thu, 02 Jan 2025 04:04:05 GMT</pubDate></item></channel></rss>""".encode()
