"""A page with one of everything the kit has, and hostile words in it."""

from __future__ import annotations

from datetime import date, timedelta

from headrace.pages import (
    Cell,
    Chart,
    ChartRow,
    Document,
    Header,
    HeatMap,
    HeatMark,
    HeatRow,
    Html,
    Listing,
    Section,
    Series,
    TableColumn,
    Texts,
    Tile,
    Words,
    banner,
    bars,
    columns,
    document,
    filter_url,
    heat_map,
    join,
    lines,
    link,
    mark,
    notes,
    paragraphs,
    sparkline,
    table,
    terms,
    tiles,
)

HOSTILE = "<script>alert('x')</script> \"><img src=x onerror=alert(1)> \u202e Cổ phiếu"
FIRST = date(2025, 3, 1)
TEXTS = Texts(
    en={
        "title": "Posts of a project",
        "headline": "{count} post analysed|{count} posts analysed",
        "sentiment": "Sentiment",
        "good": "positive",
        "neutral": "neutral",
        "bad": "negative",
        "day": "Day",
        "posts": "Posts",
        "author": "Author",
        "impact": "Impact",
        "present": "present",
        "missing": "missing",
        "revised": "revised",
        "warned": "warned",
    },
    vi={
        "title": "Bài viết của dự án",
        "headline": "Đã phân tích {count} bài",
        "sentiment": "Sắc thái",
        "good": "tích cực",
        "neutral": "trung tính",
        "bad": "tiêu cực",
        "day": "Ngày",
        "posts": "Bài",
        "author": "Tác giả",
        "impact": "Tác động",
        "present": "có",
        "missing": "thiếu",
        "revised": "sửa",
        "warned": "cảnh báo",
    },
)
TONES = ("good", "neutral", "bad")


def sample(language: str = "en", rows: int = 240) -> Document:
    words = TEXTS.of(language)
    lead = join(
        banner(f"Simulated: {HOSTILE}"),
        tiles(
            [
                Tile(words("posts"), words.number(rows), HOSTILE),
                Tile(words("bad"), words.percent(0.25), "", filter_url("posts", sentiment="bad"), "bad"),
                Tile(words("impact"), words.number(12_345.6, 1), "of 99"),
            ]
        ),
        notes(words, [HOSTILE, link("javascript:alert(1)", "a trap"), link("https://example.invalid/", "the web")]),
    )
    sections = [
        Section("shares", words("sentiment"), _bars(words)),
        Section("days", words("day"), join(columns(words, _days(words)), lines(words, _days(words)))),
        Section("posts", words("posts"), _posts(words, rows)),
        Section("symbols", "Symbols", _heat(words)),
        Section("terms", "Terms", join(terms({"Risk": HOSTILE}), paragraphs("One.", Html("<b>Two.</b>")))),
    ]
    other = {"vi": "?language=vi", "en": "?language=en"}
    header = Header(words("title"), words("title"), words("headline", count=rows), "good", HOSTILE, other)
    return document(words, header, lead, sections)


def ends(day: date) -> dict[str, str]:
    """A filter for one day."""
    return {"day.from": day.isoformat(), "day.to": day.isoformat()}


def _series(words: Words) -> list[Series]:
    return [Series(words(tone), tone) for tone in TONES]


def _bars(words: Words) -> Html:
    urls = [filter_url("posts", sentiment=tone) for tone in TONES]
    rows = [ChartRow(name, (8 - n, n, 2), urls[0], urls) for n, name in enumerate(("tiktok", "youtube", HOSTILE))]
    chart = Chart("platforms", "Posts per platform", "Platform", _series(words), rows)
    plain = Chart("intents", "Posts per intent", "Intent", [Series(words("posts"))], [ChartRow("asks", [1_200])])
    return join(bars(words, chart), bars(words, chart, whole=True), bars(words, plain))


def _days(words: Words) -> Chart:
    rows = [
        ChartRow(words.day(day), (n % 7, n % 3 or None, 3), filter_url("posts", **ends(day)), short=f"{day:%d/%m}")
        for n in range(30)
        for day in [FIRST + timedelta(n)]
    ]
    return Chart("days", "Posts per day", words("day"), _series(words), rows)


def _posts(words: Words, count: int) -> Html:
    choices = {tone: words(tone) for tone in TONES}
    heads = [
        TableColumn(words("posts"), "text", wide=True),
        TableColumn(words("author"), "author", filter="text"),
        TableColumn(words("sentiment"), "sentiment", filter="choice", choices=choices),
        TableColumn(words("day"), "day", filter="days"),
        TableColumn(words("impact"), "impact", number=True, filter="range"),
        TableColumn("Trend", sorts=False),
    ]
    rows = [
        (
            f"Bài số {number} về cà phê đường phố" if number else HOSTILE,
            f"author {number % 7}",
            Cell(mark(TONES[number % 3], words(TONES[number % 3])), [TONES[number % 3]]),
            FIRST + timedelta(number % 30),
            number * 1_000.5,
            sparkline([number % 5, 3, 2], f"trend of {number}"),
        )
        for number in range(count)
    ]
    return table(words, Listing("posts", "Posts, the newest first", heads, rows))


def _heat(words: Words) -> Html:
    marks = [
        HeatMark("p", words("present"), "neutral", "ground"),
        HeatMark("m", words("missing"), "bad", "full"),
        HeatMark("r", words("revised"), "good", "lower"),
        HeatMark("w", words("warned"), "warn", "upper"),
    ]
    days = [words.day(FIRST + timedelta(n)) for n in range(60)]
    ticks = {0: "Mar", 31: "Apr"}
    chart = HeatMap("heat", "One row per symbol", marks, days, ticks, "Symbol", "Complete")
    rows = [
        HeatRow(f"S{n:03}", ("p" * n + "mmprw" * 60)[:60], f"{n} of 60 days", words.percent(n / 60)) for n in range(20)
    ]
    return heat_map(words, chart, rows)
