"""Period against period, and project beside project."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.pages import (
    Cell,
    Chart,
    ChartRow,
    Html,
    Listing,
    Series,
    TableColumn,
    bars,
    element,
    join,
    link,
    paragraphs,
    plain,
    table,
)
from headrace_smap.insight.report.content import ProjectReport
from headrace_smap.insight.report.figures import SENTIMENTS, Period, PostFigures, period_lengths, two_periods
from headrace_smap.insight.report.view import SENTIMENT_TONES, ReportView

ASPECTS_MAX = 15
TITLE_CHARS_MAX = 60


def periods(view: ReportView, report: ProjectReport) -> Html:
    """The last days of a project against those before; how many can be chosen of a service."""
    two = two_periods(report.days, view.length)
    if two is None:
        return Html()
    words, (before, after) = view.words, two
    length = (after.last - after.first).days + 1
    heads = [
        TableColumn(words("column.figure")),
        *(TableColumn(_span(view, period), number=True) for period in two),
        TableColumn(words("change"), number=True),
    ]
    rows = [
        (name, _shown(view, of, before.figures), _shown(view, of, after.figures), _change(view, of, two))
        for name, of in _figures(view)
    ]
    listing = Listing("periods", words("periods.caption", count=length), heads, rows)
    others = [other for other in period_lengths(report.days) if other != length]
    links = [link(f"{view.own_url(days=str(other))}#periods", words("periods.days", count=other)) for other in others]
    choice = join(words("periods.other"), " ", join(*links, between=" · ")) if links and not view.in_file else ""
    return join(table(words, listing), paragraphs(choice))


def beside(view: ReportView, report: ProjectReport) -> Html:
    """This project and those it is compared with; a service offers others to choose from."""
    form = _form(view) if view.others and report.posts and not view.in_file else Html()
    if not view.beside:
        return form
    words, every = view.words, [report, *view.beside]
    rows = [ChartRow(_title(each), [each.figures.sentiments[kind] for kind in SENTIMENTS]) for each in every]
    series = [Series(words(f"sentiment.{kind}"), SENTIMENT_TONES[kind]) for kind in SENTIMENTS]
    chart = Chart("beside", words("beside.shares"), words("column.project"), series, rows)
    return join(
        form,
        bars(words, chart, whole=True),
        _side_by_side(view, "figures", every, [
            (name, [_shown(view, of, each.figures) for each in every]) for name, of in _figures(view)]),
        _side_by_side(view, "aspects", every, _aspects(view, every)),
    )  # fmt: skip


class _Figure:
    """How one figure is taken and written; `points` if a change of it is told in points of percent."""

    def __init__(self, of: Callable[[PostFigures], float | None], points: bool = False) -> None:
        self.of, self.points = of, points


def _figures(view: ReportView) -> list[tuple[str, _Figure]]:
    words = view.words
    return [
        (words("column.posts"), _Figure(lambda figures: figures.posts)),
        *((words(f"sentiment.{kind}"), _Figure(lambda figures, kind=kind: figures.share(kind), True))  # type: ignore[misc]
          for kind in SENTIMENTS),
        (words("tile.risky"), _Figure(lambda figures: figures.risky)),
        (words("tile.engagement"), _Figure(lambda figures: figures.engagement)),
    ]  # fmt: skip


def _shown(view: ReportView, figure: _Figure, figures: PostFigures) -> Cell:
    value = figure.of(figures)
    if value is None:
        return Cell(view.words("unknown"))
    return Cell(view.words.percent(value) if figure.points else view.words.number(value), [round(value, 6)])


def _change(view: ReportView, figure: _Figure, two: tuple[Period, Period]) -> Cell:
    before, after = (figure.of(period.figures) for period in two)
    if before is None or after is None:
        return Cell(view.words("unknown"))
    change = (after - before) * (100 if figure.points else 1)
    digits = 1 if figure.points else 0
    written = view.words.number(change, digits)
    signed = f"+{written}" if round(change, digits) > 0 else written
    return Cell(view.words("change.points", value=signed) if figure.points else signed, [round(change, 6)])


def _span(view: ReportView, period: Period) -> str:
    if period.first == period.last:
        return view.words.day(period.first)
    return view.words("periods.span", first=period.first, last=period.last)


def _title(report: ProjectReport) -> str:
    return plain(report.title, TITLE_CHARS_MAX)


def _side_by_side(
    view: ReportView, name: str, every: Sequence[ProjectReport], rows: Sequence[tuple[str, Sequence[object]]]
) -> Html:
    """A column per project."""
    if not rows:
        return Html()
    words = view.words
    first = words("column.figure" if name == "figures" else "column.aspect")
    heads = [TableColumn(first), *(TableColumn(_title(each), number=True) for each in every)]
    caption = words("beside.caption" if name == "figures" else "beside.aspects")
    return table(
        words, Listing(f"beside-{name}", caption, heads, [(row, *cells) for row, cells in rows], searched=False)
    )


def _aspects(view: ReportView, every: Sequence[ProjectReport]) -> list[tuple[str, Sequence[object]]]:
    words = view.words
    totals = {name: sum(each.aspects[name].total() for each in every if name in each.aspects)
              for report in every for name in report.aspects}  # fmt: skip
    most = sorted(totals, key=lambda name: (-totals[name], name))[:ASPECTS_MAX]
    return [(words.get(f"aspect.{name}", name), [_aspect(view, each, name) for each in every]) for name in most]


def _aspect(view: ReportView, report: ProjectReport, name: str) -> Cell:
    counted = report.aspects.get(name)
    if not counted:
        return Cell(view.words.number(0), [0])
    share = view.words.percent(counted["negative"] / counted.total(), 0)
    return Cell(view.words("beside.aspect", count=counted.total(), share=share), [counted.total()])


def _form(view: ReportView) -> Html:
    """One of the other projects, chosen without a script as well."""
    words = view.words
    chosen = {each.project for each in view.beside}
    options = [
        element("option", plain(title, TITLE_CHARS_MAX), value=project, selected=project in chosen)
        for project, title in view.others.items()
    ]
    none = element("option", words("beside.none"), value="")
    label = element("label", element("span", words("beside.with")), element("select", none, *options, name="beside"))
    kept = [
        element("input", type="hidden", name=name, value=value)
        for name, value in view.asked.items()
        if name != "beside"
    ]
    button = element("button", words("beside.compare"), type="submit")
    return element("form", *kept, label, button, class_="filters", method="get", action="#beside")
