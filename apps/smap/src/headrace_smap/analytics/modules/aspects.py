"""The third module: what a post is about. Keywords of its project, aspects of a product, and phrases."""

from __future__ import annotations

import hashlib
from pathlib import Path

from headrace.errors import CallerError
from headrace_smap.analytics.modules.drafts import OTHER, Draft
from headrace_smap.analytics.modules.keywords import keywords_of, phrases
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.text.lexicons import entries_in, entries_of, lexicon

ASPECTS = "aspects"
NO_ASPECT = "-"
"""A phrase of the list that only looks like an aspect: `bàn giao` delivers nothing."""
PLACES_MAX = 100
FILE_BYTES_MAX = 1_000_000


class Aspects:
    """Aspects come from a list of phrases that a file can extend."""

    name = ASPECTS
    version = "1"
    needs = ("prepare",)

    def __init__(self, options: ModuleOptions) -> None:
        known = _phrases(options)
        if options.aspects_file:
            # Another file gives other answers, so it is another version.
            told = "\n".join(f"{phrase}={aspect}" for phrase, aspect in sorted(known.items()))
            self.version += "+" + hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
        self._aspects = lexicon(known)

    def apply(self, draft: Draft) -> None:
        """Fill `keywords`, `aspects`, `aspect_places` and `phrases`."""
        draft.keywords = keywords_of(draft.context.keywords).find(draft) if draft.context.keywords else []
        draft.aspect_places = []
        for number, sentence in enumerate(draft.sentences):
            if sentence.language != OTHER and len(draft.aspect_places) < PLACES_MAX:
                found = self._aspects.find(sentence.words, sentence.plain)
                draft.aspect_places += [(aspect, number, start) for start, _, aspect in found if aspect != NO_ASPECT]
        draft.aspects = sorted({aspect for aspect, _, _ in draft.aspect_places})
        draft.phrases = phrases(draft.sentences)


def known_aspects(options: ModuleOptions) -> frozenset[str]:
    """Every aspect that a post can have."""
    return frozenset(_phrases(options).values()) - {NO_ASPECT}


def _phrases(options: ModuleOptions) -> dict[str, str]:
    known = dict(entries_of("aspects.txt"))
    return _extended(known, options.aspects_file) if options.aspects_file else known


def _extended(known: dict[str, str], path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CallerError(f"SMAP_ASPECTS: {path} has more than {FILE_BYTES_MAX} bytes", "make it shorter")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(
            f"SMAP_ASPECTS: {path} cannot be read: {error}", "lines of `aspect: phrase, phrase`"
        ) from error
    return {**known, **entries_in(text, path.name)}
