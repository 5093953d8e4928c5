"""How many posts a second one core analyses: made-up posts of ordinary length, the same for the same seed."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime

from headrace_smap.analytics.modules.drafts import AnalysisContext
from headrace_smap.analytics.modules.pipelines import ModuleOptions, pipeline

POST_CHARS = 200
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
KEYWORDS = ("VinFast", "VF3", "xe điện")
_VIETNAMESE = (
    "Mình đi VinFast VF3 được {n} tháng rồi, xe chạy êm và tiết kiệm hơn mình nghĩ",
    "Pin tụt hơi nhanh khi bật điều hòa, đi xa phải tính trước trạm sạc",
    "Nhân viên tư vấn nhiệt tình nhưng giao xe trễ {n} ngày làm mình khá bực",
    "Nội thất đẹp, ghế ngồi thoải mái, chỉ có điều cách âm chưa tốt lắm",
    "App hay bị văng, cập nhật xong ko đăng nhập dc luôn 😡",
    "Giá {n} triệu thì quá hợp lý so với mấy con cùng phân khúc 😍",
    "Mọi người cho em hỏi bảo dưỡng lần đầu hết bao nhiêu tiền vậy ạ?",
    "Hôm qua gọi tổng đài {n} lần mới có người nghe máy, làm ăn kiểu gì vậy",
)
_BARE = (
    "xe nay chay rat em, gia lai hop ly nua nen minh kha hai long",
    "giao hang cham qua, doi {n} ngay roi chua thay dau",
    "app loi hoai, cap nhat xong khong vao duoc luon",
    "cho minh hoi gia lan banh bao nhieu vay shop",
)
_ENGLISH = (
    "I have driven this car for {n} months and the battery is really great",
    "Customer service was slow to answer, waited {n} days for a reply",
    "The design looks amazing but the software still crashes now and then",
    "Overall good value for the price, I would recommend it to my friends!",
)
_SELLING = ("Shop chuyên sỉ lẻ phụ kiện VF3, giảm ngay {n}% hôm nay, liên hệ zalo 0901 234 567", "inbox em báo giá nhé")
_KINDS = ((_VIETNAMESE, 60), (_BARE, 12), (_ENGLISH, 20), (_SELLING, 8))


def sample_posts(count: int, seed: int = 1) -> list[dict[str, object]]:
    """So many posts of about 200 characters: mostly Vietnamese, some bare, some English, some advertising."""
    chance = random.Random(seed)
    return [_post(number, chance) for number in range(count)]


def _post(number: int, chance: random.Random) -> dict[str, object]:
    sentences = chance.choices([kind for kind, _ in _KINDS], [weight for _, weight in _KINDS])[0]
    text = ""
    while len(text) < POST_CHARS * 0.8:
        text += chance.choice(sentences).format(n=chance.randint(2, 900)) + chance.choice((". ", "! ", ", ", "\n"))
    views = int(10 ** chance.uniform(1, 6))
    return {
        "id": f"post-{number}",
        "platform": chance.choice(("tiktok", "facebook", "youtube")),
        "text": text[: POST_CHARS + 60] + chance.choice(("", " #VinFast #VF3", " #xedien")),
        "author": {"id": f"user-{number % 997}", "name": "Nguyễn Văn A", "followers": int(10 ** chance.uniform(1, 5))},
        "metrics": {"likes": views // 20, "comments": views // 200, "shares": views // 500, "views": views},
        "published_at": "2026-01-12T08:00:00Z",
        "url": f"https://example.com/posts/{number}",
    }


def posts_per_second(count: int = 3_000, options: ModuleOptions | None = None) -> float:
    """The rate of the whole pipeline on one core, with everything loaded, by the time this thread was computing."""
    chosen = options or ModuleOptions()
    posts, context, modules = sample_posts(count), AnalysisContext(NOW, KEYWORDS), pipeline(chosen.modules, chosen)
    modules.warm()
    modules.analyse(posts[:100], context)
    begun = time.thread_time()
    modules.analyse(posts, context)
    return count / (time.thread_time() - begun)
