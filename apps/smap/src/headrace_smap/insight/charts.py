"""Charts as SVG text: bars in three colours, each with its words for those who cannot see it.

Colours are classes of the page's style; sizes are attributes, because the page's policy allows no style attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape

from headrace_smap.insight.report_content import OTHER, SENTIMENTS, Shares

WIDTH, DAY_HEIGHT, ROW_HEIGHT, LABEL = 760, 200, 26, 190
KINDS = (*SENTIMENTS, OTHER)
ROWS_MAX = 15
NAME_CHARS_MAX = 16


def stacked_days(days: Shares) -> str:
    """One column per day."""
    if not days:
        return ""
    names = sorted(days)
    most = max(counted.total() for counted in days.values()) or 1
    step = (WIDTH - 50) / len(names)
    parts = [_axis(most)]
    for index, name in enumerate(names):
        left, bottom = 45 + index * step, DAY_HEIGHT - 25.0
        for kind in KINDS:
            height = days[name][kind] / most * (DAY_HEIGHT - 45)
            if height:
                bottom -= height
                words = f"{name}: {days[name][kind]:,} {kind}"
                parts.append(_bar(kind, (left + step * 0.1, bottom), step * 0.8, height, words))
        if index % max(1, len(names) // 8) == 0:
            place = f'x="{left + step / 2:.1f}" y="{DAY_HEIGHT - 8}" text-anchor="middle"'
            parts.append(f"<text {place}>{escape(name if name == OTHER else name[5:])}</text>")
    return _picture("Posts per day by sentiment", DAY_HEIGHT, parts)


def rows_of(shares: Shares, title: str) -> str:
    """One horizontal bar per name, the most first."""
    ordered = sorted(shares.items(), key=lambda share: (-share[1].total(), share[0]))[:ROWS_MAX]
    if not ordered:
        return ""
    most = ordered[0][1].total() or 1
    parts: list[str] = []
    for index, (name, counted) in enumerate(ordered):
        parts += _row(index, name, counted, most)
    return _picture(title, len(ordered) * ROW_HEIGHT + 4, parts)


def share_of(counted: Counter[str]) -> str:
    """All posts as one bar."""
    total = counted.total()
    if not total:
        return ""
    parts, left = [], 0.0
    for kind in KINDS:
        width = counted[kind] / total * WIDTH
        if width:
            parts.append(_bar(kind, (left, 0), width, 30, f"{counted[kind]:,} {kind}"))
            if width > 60:
                parts.append(f'<text class="on" x="{left + 8:.1f}" y="20">{counted[kind] / total:.0%}</text>')
        left += width
    return _picture("Share of sentiments", 30, parts)


def plain_rows(counts: Mapping[str, int], title: str) -> str:
    """Bars of one colour."""
    return rows_of({name: Counter({"plain": count}) for name, count in counts.items()}, title)


def _row(index: int, name: str, counted: Counter[str], most: int) -> list[str]:
    top = index * ROW_HEIGHT + 4
    short = name if len(name) <= NAME_CHARS_MAX else f"{name[: NAME_CHARS_MAX - 1]}…"
    place = f'x="{LABEL - 8}" y="{top + 14}" text-anchor="end"'
    parts = [f"<text {place}><title>{escape(name)}</title>{escape(short)}</text>"]
    left = float(LABEL)
    for kind in (*KINDS, "plain"):
        width = counted[kind] / most * (WIDTH - LABEL - 70)
        if width:
            parts.append(_bar(kind, (left, top), width, ROW_HEIGHT - 8, f"{name}: {counted[kind]:,} {kind}"))
        left += width
    parts.append(f'<text x="{left + 6:.1f}" y="{top + 14}">{counted.total():,}</text>')
    return parts


def _axis(most: int) -> str:
    low = DAY_HEIGHT - 25
    return (
        f'<line class="axis" x1="45" x2="{WIDTH}" y1="{low}" y2="{low}"/>'
        f'<text x="38" y="26" text-anchor="end">{most:,}</text><text x="38" y="{low}" text-anchor="end">0</text>'
    )


def _bar(kind: str, corner: tuple[float, float], width: float, height: float, words: str) -> str:
    place = f'x="{corner[0]:.1f}" y="{corner[1]:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place}><title>{escape(words)}</title></rect>'


def _picture(title: str, height: int, parts: list[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"'
    return f"<svg {box}>{''.join(parts)}</svg>"
