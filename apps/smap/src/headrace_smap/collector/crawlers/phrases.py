"""What people write about products, in Vietnamese and English: the material of simulated posts.

`{it}` is the keyword. A phrase about an aspect stands under its name, the good ones and the bad ones apart.
"""

from __future__ import annotations

from collections.abc import Mapping

Phrases = tuple[str, ...]

OPENINGS: Mapping[str, Phrases] = {
    "vi": (
        "Mới nhận {it} hôm qua,",
        "Dùng {it} được ba tháng rồi,",
        "Review nhanh {it} cho anh em:",
        "Ai đang phân vân {it} thì đọc nhé:",
        "Nhà mình vừa đổi sang {it},",
        "Nói thật về {it}:",
        "Sau 5000 km với {it},",
        "Đi xem {it} ở showroom về,",
        "{it} lần này làm mình bất ngờ,",
        "Thấy mọi người nói nhiều về {it},",
    ),
    "en": (
        "Got my {it} yesterday,",
        "Three months with {it} now,",
        "Quick review of {it}:",
        "If you are thinking about {it}, read this:",
        "We just switched to {it},",
        "Honest words about {it}:",
        "After 5000 km with {it},",
        "Back from a test of {it},",
        "{it} surprised me this time,",
        "Everybody talks about {it},",
    ),
}

GOOD: Mapping[str, Mapping[str, Phrases]] = {
    "vi": {
        "price": ("giá quá hợp lý", "giá mềm hơn mình nghĩ", "tiền nào của nấy, rất đáng tiền"),
        "battery": ("pin trâu, chạy cả tuần mới sạc", "sạc nhanh cực kỳ", "pin đi được xa hơn quảng cáo"),
        "service": ("nhân viên tư vấn nhiệt tình", "bảo hành nhanh gọn", "chăm sóc khách hàng tuyệt vời"),
        "design": ("thiết kế đẹp xuất sắc", "nội thất nhìn sang", "màu sơn ngoài đời rất đẹp"),
        "quality": ("chất lượng hoàn thiện tốt", "chạy êm, không có gì phải chê", "dùng bền, rất hài lòng"),
        "delivery": ("giao hàng sớm hơn hẹn", "đóng gói cẩn thận", "giao tận nhà rất nhanh"),
        "software": ("phần mềm mượt mà", "cập nhật xong ổn định hẳn", "ứng dụng dễ dùng"),
    },
    "en": {
        "price": ("the price is great", "cheaper than I thought", "worth every penny"),
        "battery": ("the battery lasts all week", "it charges really fast", "the range is better than advertised"),
        "service": ("the staff were very helpful", "warranty was quick and easy", "customer service is excellent"),
        "design": ("the design is beautiful", "the interior looks premium", "the colour is gorgeous in real life"),
        "quality": ("build quality is solid", "it runs smooth and quiet", "very reliable so far, love it"),
        "delivery": ("delivery came early", "it was packed with care", "shipping was super fast"),
        "software": ("the software is smooth", "the last update fixed everything", "the app is easy to use"),
    },
}

BAD: Mapping[str, Mapping[str, Phrases]] = {
    "vi": {
        "price": ("giá trên trời", "đắt mà không xứng", "mới mua tuần trước đã giảm giá, cay thật"),
        "battery": ("pin tụt nhanh khủng khiếp", "sạc mãi không đầy", "pin yếu, đi nửa đường hết"),
        "service": ("nhân viên thái độ quá tệ", "bảo hành chờ cả tháng", "gọi tổng đài không ai nghe máy"),
        "design": ("thiết kế xấu, nhìn rẻ tiền", "nội thất ọp ẹp", "màu ngoài đời chán hẳn"),
        "quality": ("mới đi đã hỏng", "kêu lạch cạch khó chịu", "lỗi liên tục, quá thất vọng"),
        "delivery": ("giao hàng trễ hai tuần", "hộp móp méo hết", "hẹn giao rồi lại hủy"),
        "software": ("phần mềm treo suốt", "cập nhật xong lỗi tùm lum", "ứng dụng không đăng nhập được"),
    },
    "en": {
        "price": ("way too expensive", "not worth the money", "they cut the price a week after I paid"),
        "battery": ("the battery drains terribly fast", "it takes forever to charge", "the range is a joke"),
        "service": ("the staff were rude", "I waited a month for warranty", "nobody answers the hotline"),
        "design": ("the design is ugly and cheap", "the interior rattles", "the colour is disappointing"),
        "quality": ("it broke on the second day", "annoying noises everywhere", "one fault after another, terrible"),
        "delivery": ("delivery was two weeks late", "the box arrived damaged", "they cancelled my delivery again"),
        "software": ("the software freezes all the time", "the update broke everything", "the app will not log in"),
    },
}

QUESTIONS: Mapping[str, Phrases] = {
    "vi": ("Mọi người thấy sao?", "Ai dùng rồi cho xin ý kiến với.", "Giá lăn bánh bao nhiêu vậy mọi người?", ""),
    "en": ("What do you think?", "Anybody else?", "How much is it all in?", ""),
}

CLOSINGS: Mapping[str, Mapping[str, Phrases]] = {
    "vi": {
        "good": ("Sẽ giới thiệu cho bạn bè.", "Đáng mua nha mọi người!"),
        "bad": ("Lần sau không mua nữa.", "Mọi người nên cân nhắc kỹ."),
        "mixed": ("Có nên mua không ạ?", "Cũng tạm được."),
    },
    "en": {
        "good": ("I will tell my friends.", "Go and get one!"),
        "bad": ("Never again.", "Think twice before you buy."),
        "mixed": ("Should I buy it?", "It is okay, I guess."),
    },
}

SPAM: Mapping[str, Phrases] = {
    "vi": (
        "Vay tiền nhanh 24h không cần thế chấp, inbox zalo 0900000000 ngay!!! {it}",
        "CLICK LINK NHẬN QUÀ {it} MIỄN PHÍ 👉 http://qua-tang.example/{number} 👈 chỉ hôm nay",
        "Tuyển CTV online lương 20tr/tháng, việc nhẹ tại nhà, ib mình nha #{tag}",
        "Sim số đẹp, nick game giá rẻ, tăng follow uy tín, liên hệ zalo 0911111111 {it}",
    ),
    "en": (
        "FREE {it} GIVEAWAY!!! click http://free-gift.example/{number} now now now",
        "Earn $500 a day from home, DM me, no experience needed #{tag}",
        "Buy followers and likes cheap, 100% real, telegram @fastgrow {it}",
        "Crypto signals that never lose, join before midnight http://moon.example/{number}",
    ),
}

TEENCODE: Mapping[str, str] = {
    "không": "ko",
    "được": "dc",
    "mọi người": "mn",
    "rồi": "r",
    "quá": "wá",
    "mình": "mk",
    "biết": "bit",
    "với": "vs",
    "nhiều": "nhìu",
    "cũng": "cg",
    "gì": "j",
    "vậy": "z",
    "bao nhiêu": "bn",
    "anh em": "ae",
}

GOOD_EMOJI = ("😍", "👍", "🔥", "❤️", "🥰", "💯")
BAD_EMOJI = ("😡", "👎", "😭", "🤮", "💔", "🙄")
TAGS: Mapping[str, Phrases] = {"vi": ("review", "xehoi", "xuhuong", "danhgia"), "en": ("review", "fyp", "cars", "tech")}
FAMILY_NAMES = ("Nguyễn", "Trần", "Lê", "Phạm", "Hoàng", "Vũ", "Đặng", "Smith", "Miller", "Brown")
GIVEN_NAMES = ("An", "Bình", "Chi", "Dũng", "Hà", "Khánh", "Linh", "Minh", "Emma", "Jack", "Olivia", "Tom")
