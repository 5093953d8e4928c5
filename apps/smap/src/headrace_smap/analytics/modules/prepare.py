"""The first module: text becomes sentences of comparable words, in a known language."""

from __future__ import annotations

from headrace_smap.analytics.modules.drafts import MIXED, VIETNAMESE, Draft, Sentence
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.posts import TEXT_CHARS_MAX
from headrace_smap.analytics.modules.text import languages
from headrace_smap.analytics.modules.text.clauses import clauses
from headrace_smap.analytics.modules.text.mentions import FOUND_MAX, extract
from headrace_smap.analytics.modules.text.normal_form import cleaned
from headrace_smap.analytics.modules.text.questions import is_question
from headrace_smap.analytics.modules.text.sentences import is_emoji, sentences, words, written_out


class Prepare:
    """Unicode, slang, emoji, hashtags, language; see `cleaning`, `extracting`, `wording` and `languages`."""

    name = "prepare"
    version = "1"

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def warm(self) -> None:
        """Load the n-grams that decide about rare text."""
        # The first answer loads them, not the making of the detector.
        languages.detector().detect_language_of("le premier mot")

    def apply(self, draft: Draft) -> None:
        """Fill `text`, `sentences`, `language` and the lists of what else is in the text."""
        draft.text = cleaned(draft.post.text[:TEXT_CHARS_MAX])[:TEXT_CHARS_MAX]
        left = extract(draft, draft.text)
        for part in sentences(left):
            found = words(part)
            if found:
                draft.sentences.append(Sentence(part, found))
        shares = [languages.identify(sentence) for sentence in draft.sentences]
        draft.language, draft.language_confidence = languages.language_of(draft.sentences, shares)
        for sentence in draft.sentences:
            if sentence.language in (VIETNAMESE, MIXED):
                sentence.words = written_out(sentence.words, sentence.plain)
            sentence.question = is_question(sentence)
            sentence.clauses = clauses(sentence)
        seen = (word for sentence in draft.sentences for word in sentence.words if is_emoji(word))
        draft.emojis = list(dict.fromkeys(seen))[:FOUND_MAX]
