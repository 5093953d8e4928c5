"""What the posts of a project say, in a few numbers."""

from __future__ import annotations

from collections import Counter

from headrace_smap.database import Database
from headrace_smap.insight.notices import Summary


async def summary_of(database: Database, project: str) -> Summary:
    """From the results themselves; from what was told of them where somebody else keeps them."""
    sentiments, risk = Counter[str](), Counter[str]()
    spam = simulated = 0
    for sentiment, level, is_spam, is_simulated, count in await database.rows("notice_summary", project=project):
        spam += count if is_spam else 0
        simulated += count if is_simulated else 0
        if not is_spam:
            sentiments[sentiment] += count
            risk[level] += count
    if not (sentiments or spam):
        for row in await database.rows("aggregate_rows", project=project):
            sentiments[row[3]] += int(row[4])
        return Summary(sentiments)
    return Summary(sentiments, risk, spam, simulated)
