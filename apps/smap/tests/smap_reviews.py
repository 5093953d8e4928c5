"""Made-up shop reviews whose authors judge in idioms that no word list knows, with their labels.

A judgement, what it is about and the small talk around it are drawn by a seed. Some judgements are only ever written in
words that the lists know, so the rules are neither blind nor good.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace_smap.analytics.modules import NEGATIVE, NEUTRAL, POSITIVE, AnalysisContext, Draft, Pipeline
from headrace_smap.analytics.modules.linear.model_file import write
from headrace_smap.analytics.trainer.label_file import LabelledText
from headrace_smap.analytics.trainer.trainer import Trained, train

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
_SAID = {
    POSITIVE: (
        "chốt thêm đơn nữa",
        "sẽ còn ghé dài dài",
        "cả nhà tranh nhau xài",
        "cất vô tủ không nỡ xài",
        "lụm liền không suy nghĩ",
        "đeo hoài không muốn tháo",
        "xách về ai cũng hỏi mua đâu",
        "rất tốt",
        "quá đẹp",
        "hài lòng",
    ),
    NEGATIVE: (
        "coi như đóng học phí",
        "gọi cháy máy không ai bắt",
        "lấy về kê chân bàn",
        "để trưng cho chuột gặm",
        "tấp luôn vô sọt",
        "cho không ai lấy",
        "mua về hối không kịp",
        "quá tệ",
        "thất vọng",
        "kém chất lượng",
    ),
    NEUTRAL: (
        "mới nhận hôm qua chưa xài",
        "giá bao nhiêu vậy shop",
        "màu này còn size nào",
        "mua tặng sinh nhật cháu",
        "để bữa nào thử rồi kể",
        "đặt hàng hôm thứ ba",
        "shop mở cửa tới mấy giờ",
        "so với bản năm ngoái thì khác nắp",
    ),
}
_THINGS = ("cái áo", "đôi dép", "nồi chiên", "tai nghe", "balo", "đèn ngủ", "bình nước", "ghế xếp", "son", "ốp lưng")
_OPENINGS = ("", "nói chung ", "thiệt sự ", "mọi người ơi ", "lần đầu mua ", "đợt sale vừa rồi ", "nghe bạn rủ ")
_CLOSINGS = ("", " nha", " á", " luôn đó", ", hết", " mn ơi", ", kể cho ai cần", " ...")


@dataclass(frozen=True, slots=True)
class Review:
    text: str
    sentiment: str


def reviews(count: int, seed: int) -> list[Review]:
    """So many different ones."""
    chance = random.Random(seed)
    found: dict[str, Review] = {}
    while len(found) < count:
        label = chance.choice((POSITIVE, NEGATIVE, NEUTRAL))
        words = (chance.choice(_OPENINGS), chance.choice(_THINGS), " ", chance.choice(_SAID[label]))
        text = "".join((*words, chance.choice(_CLOSINGS)))
        found[text] = Review(text, label)
    return [*found.values()]


def learned(posts: Sequence[Review], rules: Pipeline, folds: int = 5) -> Trained:
    """A model of the labels of reviews."""
    texts = [LabelledText(post.text, frozenset((post.sentiment,))) for post in posts]
    return train(texts, "sentiment", rules, folds)


def model_file(path: Path, posts: Sequence[Review], rules: Pipeline) -> Path:
    write(path, learned(posts, rules).model)
    return path


def drafts_of(modules: Pipeline, posts: Sequence[Review]) -> list[Draft]:
    told = [{"id": "1", "platform": "shop", "text": post.text} for post in posts]
    return modules.analyse(told, AnalysisContext(NOW))


def accuracy(modules: Pipeline, posts: Sequence[Review]) -> float:
    drafts = drafts_of(modules, posts)
    return sum(draft.sentiment == post.sentiment for draft, post in zip(drafts, posts, strict=True)) / len(posts)
