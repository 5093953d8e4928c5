"""The list of all projects, the newest first."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from headrace.pages import (
    Cell,
    Document,
    Header,
    Html,
    Listing,
    Section,
    TableColumn,
    banner,
    document,
    element,
    join,
    link,
    moment,
    paragraphs,
    plain,
    table,
)
from headrace_smap.database import Row
from headrace_smap.insight.report.view import ReportView

NAME_CHARS_MAX = 120


def projects_page(rows: Iterable[Row], view: ReportView | None = None) -> Document:
    """Each project leads to its report."""
    view = view or ReportView()
    words, shown = view.words, list(rows)
    statuses = {row[3]: words.get(f"status.{row[3]}", str(row[3] or words("unknown"))) for row in shown}
    heads = [
        TableColumn(words("column.project"), "project", wide=True),
        TableColumn(words("column.keywords"), "keywords"),
        TableColumn(words("column.status"), "status", filter="choice", choices=statuses),
        TableColumn(words("column.posts"), "posts", number=True),
        TableColumn(words("column.failed"), "failed", number=True),
        TableColumn(words("column.created"), "created", filter="days"),
    ]
    listing = Listing("projects", words("list.caption"), heads, [_row(view, row, statuses) for row in shown])
    content = table(words, listing) if shown else paragraphs(words("list.none"))
    lead = banner(words("list.banner")) if any(row[-1] for row in shown) else Html()
    title = words("list.title")
    about = words("about.zone", zone=view.zone.key)
    header = Header(words("title", name=title), "smap", about=about, languages=view.languages)
    return document(words, header, lead, [Section("projects", title, content)])


def _row(view: ReportView, row: Row, statuses: dict[str, str]) -> tuple[object, ...]:
    project, name, keywords, status, total, done, errors, created_at, _, simulated = row
    words = view.words
    url = f"projects/{quote(str(project), safe='')}/report?{view.query(view.kept)}"
    title = link(url, plain(name or project, NAME_CHARS_MAX))
    beside = element("span", project, class_="soft") if name else ""
    marked = element("b", words("posts.simulated")) if simulated else ""
    return (
        join(title, beside, marked, between=" "),
        plain(", ".join(str(word) for word in keywords or ()), NAME_CHARS_MAX),
        Cell(statuses[status], [str(status)]),
        Cell(words("list.posts", done=done, total=total), [done]),
        errors,
        Cell(moment(words, view.local(created_at)), [view.local(created_at).date().isoformat()]),
    )
