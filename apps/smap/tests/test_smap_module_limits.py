"""No text, however strange, stops an analysis or takes longer than its share."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smap_module_drafting import analysed, modules

from headrace_smap.analytics.modules import TEXT_CHARS_MAX
from headrace_smap.analytics.modules.bench import posts_per_second, sample_posts
from headrace_smap.analytics.modules.text.sentences import SENTENCES_MAX

SECONDS_MAX = 0.2
"""Computing time of this thread; the worst text below needs a fifth of it on a busy machine."""
POSTS_PER_SECOND_MIN = 300
"""A fifth of what one quiet core does, so that a busy machine does not fail."""
STRANGE = {
    "combining marks": "a" + "\u0301\u0323" * 100_000,
    "marks of falling classes": "a" + "\u05b0\u0591\u0345\u0301\u0323" * 40_000,
    "no space": "đẹp" * 350_000,
    "one letter": "a" * 1_000_000,
    "bidi": "\u202e\u2066xe đẹp\u2069\u202c" * 20_000,
    "half surrogates": "\ud83d\udc00 xe đẹp " * 5_000,
    "dots": "." * 100_000,
    "sentences": "a. " * 50_000,
    "questions": "? " * 50_000,
    "angle brackets": "<a " * 50_000,
    "entities": "&#x41;&amp;&" * 20_000,
    "a huge entity": "&#" + "1" * 100_000 + ";",
    "at signs": "a@" * 50_000,
    "almost an address": "a." * 50_000 + "@",
    "hosts": "a-b.c" * 30_000,
    "hash signs": "#a" * 50_000,
    "digits": "0 9" * 50_000,
    "numbers": "1.2," * 50_000,
    "quotes": "a'" * 50_000,
    "joiners": "👨\u200d" * 50_000,
    "flags": "🇻🇳" * 50_000,
    "faces": ":)(" * 50_000,
    "negations": "không " * 50_000,
    "intensifiers": "rất quá " * 50_000,
    "contrasts": "nhưng mà " * 50_000,
    "judgements": "tốt xấu good bad " * 20_000,
    "english": "but good " * 50_000,
    "english aspects": "but the price is good " * 20_000,
    "stretched": "looooove " * 30_000,
    "slang": "k ko hok vs bt " * 20_000,
    "nulls": "\x00" * 100_000,
    "controls": "".join(map(chr, range(32))) * 3_000,
    "private": "\ue000\U000f0000" * 50_000,
    "lines": "\n \n" * 50_000,
    "chinese": "这款手机" * 30_000,
}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    modules().warm()
    modules().analyse(sample_posts(50), analysed("").context)


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_text_is_analysed_in_time(kind: str) -> None:
    begun = time.thread_time()
    draft = analysed(STRANGE[kind], "VF3", "xe điện")
    assert time.thread_time() - begun < SECONDS_MAX
    assert len(draft.text) <= TEXT_CHARS_MAX
    assert len(draft.sentences) <= SENTENCES_MAX
    "".join([draft.text, *draft.phrases, *draft.hashtags, *draft.urls]).encode("utf-8")


WORDS = st.sampled_from(
    [
        "không",
        "rất",
        "đẹp",
        "tệ",
        "nhưng",
        "pin",
        "giá",
        "ko",
        "good",
        "but",
        "not",
        "😍",
        "👍🏽",
        ":)",
        "?",
        "!",
        ".",
        ",",
        "#VF3",
        "@a",
        "0912345678",
        "<b>",
        "&amp;",
        "\u200d",
        "\n",
    ]
)


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(), max_size=300) | st.lists(WORDS, max_size=60).map(" ".join))
def test_any_text_makes_a_complete_row(text: str) -> None:
    draft = analysed(text, "VF3", text[:20])
    assert -1 <= draft.sentiment_score <= 1
    assert 0 <= draft.intent_score <= 1
    assert 0 <= draft.spam_score <= 1
    assert set(draft.aspect_sentiments) == set(draft.aspects)
    assert "\x00" not in draft.text
    draft.text.encode("utf-8")
    for sentence in draft.sentences:
        assert [start for start, _, _ in sentence.clauses] == [0, *(end for _, end, _ in sentence.clauses[:-1])]
        assert sentence.clauses[-1][1] == len(sentence.words)


def test_ordinary_posts_are_analysed_fast() -> None:
    posts = sample_posts(200, seed=7)
    assert posts == sample_posts(200, seed=7)
    assert 150 < sum(len(str(post["text"])) for post in posts) / 200 < 260
    assert posts_per_second(400) > POSTS_PER_SECOND_MIN
