"""Stored posts that are worth a label: those whose answer is most uncertain, or a sample of all.

The file is what `train` reads. Its column `label` is empty: what nobody has read must not become a lesson.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, OperatorError
from headrace_smap.analytics.modules.linear.learned_module import written
from headrace_smap.analytics.trainer.label_file import LABEL, TEXT
from headrace_smap.database import Database
from headrace_smap.spreadsheet import guarded

PAGE = 500
COLUMNS = ("post_id", "platform", TEXT, "answer", "rules", "model", "margin", LABEL)


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """Which posts: of these projects (all, if none is named), for which module, uncertain ones only or any."""

    module: str
    projects: tuple[str, ...] = ()
    uncertain: bool = False
    posts_max: int = 200


@dataclass(frozen=True, slots=True)
class LabelCandidate:
    """A post and what was said about it; `rank` is lowest for those that are looked at first."""

    rank: tuple[float, bytes]
    post_id: str
    platform: str
    text: str
    answer: str
    doubt: dict[str, Any]

    @property
    def cells(self) -> tuple[object, ...]:
        said = (self.doubt.get("rules", ""), self.doubt.get("model", ""), self.doubt.get("margin", ""))
        return guarded(self.post_id), self.platform, guarded(self.text), self.answer, *said, ""


async def candidates(database: Database, choice: LabelChoice) -> list[LabelCandidate]:
    """The posts to label, most uncertain first; each text once. Spam and other languages are nothing to learn from."""
    best: dict[str, LabelCandidate] = {}
    async for page in _pages(database, choice):
        for found in page:
            known = best.get(found.text)
            if known is None or found.rank < known.rank:
                best[found.text] = found
        kept = sorted(best.values(), key=lambda found: found.rank)[: choice.posts_max]
        best = {found.text: found for found in kept}
    return sorted(best.values(), key=lambda found: found.rank)


async def _pages(database: Database, choice: LabelChoice) -> AsyncIterator[list[LabelCandidate]]:
    project = path = ""
    told = {"projects": choice.projects, "every": not choice.projects, "uncertain": choice.uncertain, "room": PAGE}
    while rows := await database.rows("label_candidates", project=project, path=path, **told):
        project, path = rows[-1][:2]
        yield [found for row in rows if (found := _candidate(row[2:], choice)) is not None]


def _candidate(row: Sequence[Any], choice: LabelChoice) -> LabelCandidate | None:
    post_id, platform, text, sentiment, intent, aspects, uncertain = row
    answers = {"sentiment": sentiment, "intent": intent, "aspects": written(aspects)}
    doubt = uncertain.get(choice.module)
    if not text.strip() or (choice.uncertain and doubt is None):
        return None
    # Chance that is the same every time: nobody wants another sample for asking twice.
    lot = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rank = (float(doubt["margin"]), lot) if choice.uncertain and doubt else (0.0, lot)
    return LabelCandidate(rank, post_id, platform, text, answers[choice.module], doubt or {})


def write_labels(path: Path, found: Sequence[LabelCandidate]) -> None:
    """A new file only: in an old one may stand an afternoon of somebody's labels."""
    try:
        # With the mark by which spreadsheets know UTF-8.
        with path.open("x", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(candidate.cells for candidate in found)
    except FileExistsError:
        raise CallerError(f"{path} exists, and labels may be in it", "name another file by --to") from None
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error.strerror}", "name another file by --to") from None
