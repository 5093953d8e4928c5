"""The receipt of the demo as a page: what was counted, what happened when, and what became of every file."""

from __future__ import annotations

from headrace.pages import (
    Cell,
    Document,
    Header,
    Html,
    Listing,
    TableColumn,
    Texts,
    Tile,
    Words,
    document,
    mark,
    table_section,
    tiles,
)
from headrace_pm.demo.comparison import SinkComparison
from headrace_pm.demo.network_site import PlannedFile
from headrace_pm.demo.receipt import CounterReceipt
from headrace_pm.demo.story import CounterStory

TEXTS = Texts(
    en={
        "title": "Counters of the demo",
        "right": "{rows} counters are in both sinks, each once, though a process was killed with {held} files in hand.",
        "wrong": "The sinks are not right: see below.",
        "table": "rows in the table",
        "parquet": "rows in Parquet files",
        "equal": "equal to the truth, row for row",
        "unequal": "{missing} missing, {extra} too many, {different} different",
        "files": "files in both sinks",
        "files.more": "of {wanted}; {archived} contents in the archive",
        "refused": "files refused",
        "refused.more": "of {wanted} that can never be read",
        "halves": "rows of half uploads",
        "halves.more": "before the rest of {count} files came",
        "transfers": "transfers",
        "transfers.more": "by {logins} logins, for {uploads} uploads",
        "what": "What happened",
        "second": "Second",
        "event": "Event",
        "names": "Files",
        "name": "File",
        "kind": "Upload",
        "state": "State",
        "contents": "Contents",
        "reason": "Reason",
        "MOVED": "moved",
        "ERROR": "error",
        "": "none",
    },
)
TONES = {"MOVED": "good", "ERROR": "warn"}


def receipt_page(receipt: CounterReceipt, story: CounterStory) -> Document:
    words = TEXTS.of("en")
    said = words("wrong")
    if receipt.right:
        said = words("right", rows=words.number(receipt.rows_wanted), held=receipt.held_when_killed)
    header = Header(words("title"), words("title"), said, tone="good" if receipt.right else "bad")
    happened = [TableColumn(words("second"), "second", number=True), TableColumn(words("event"), "event", wide=True)]
    rows = [(f"{event.at_s:.1f}", event.text) for event in story.events]
    return document(
        words,
        header,
        _tiles(words, receipt),
        [
            table_section(words, Listing("what", words("what"), happened, rows)),
            table_section(words, _files(words, story)),
        ],
    )


def _tiles(words: Words, receipt: CounterReceipt) -> Html:
    archived = words.number(receipt.archived)
    return tiles(
        [
            Tile(words("table"), words.number(receipt.table.rows), _told(words, receipt.table)),
            Tile(words("parquet"), words.number(receipt.parquet.rows), _told(words, receipt.parquet)),
            Tile(
                words("files"),
                words.number(receipt.done),
                words("files.more", wanted=receipt.done_wanted, archived=archived),
            ),
            Tile(words("refused"), words.number(receipt.refused), words("refused.more", wanted=receipt.refused_wanted)),
            Tile(words("halves"), words.number(receipt.early_rows), words("halves.more", count=receipt.half_uploads)),
            Tile(
                words("transfers"),
                words.number(receipt.fetched),
                words("transfers.more", logins=receipt.logins, uploads=receipt.uploads),
            ),
        ]
    )


def _told(words: Words, sink: SinkComparison) -> str:
    if sink.is_equal:
        return words("equal")
    return words("unequal", missing=sink.missing, extra=sink.extra, different=sink.different)


def _files(words: Words, story: CounterStory) -> Listing:
    planned = story.site.planned()
    states = {found.state for found in story.states.values()}
    columns = [
        TableColumn(words("name"), "name"),
        TableColumn(words("kind"), "kind", filter="choice", choices={each.kind: each.kind for each in planned}),
        TableColumn(words("state"), "state", filter="choice", choices={each: words.get(each, each) for each in states}),
        TableColumn(words("contents"), "contents"),
        TableColumn(words("reason"), "reason", wide=True),
    ]
    return Listing("files", words("names"), columns, [_row(words, story, each) for each in planned])


def _row(words: Words, story: CounterStory, planned: PlannedFile) -> tuple[object, ...]:
    found = story.states.get(planned.name)
    if found is None:
        return planned.name, Cell(planned.kind, [planned.kind]), words(""), "0", None
    state = Cell(mark(TONES.get(found.state, "plain"), words.get(found.state, found.state)), [found.state])
    return planned.name, Cell(planned.kind, [planned.kind]), state, str(found.revisions), found.error or None
