"""Pages for people: one HTML document that needs nothing else, put together from Python values.

    from headrace.pages import Header, Section, Texts, Tile, document, save, tiles

    TEXTS = Texts(en={"posts": "Posts"}, vi={"posts": "Bài"})
    words = TEXTS.of("vi")
    page = document(words, Header("Report", "Report"), tiles([Tile(words("posts"), words.number(1_200))]), [])
    save(page, Path("report.html"))

- Everything that is not `Html` is escaped. `element`, `join` and `link` make `Html`; nothing else needs to.
- A page loads nothing and runs only the kit's own script: its policy names that by hash, in a file and from a server
  (`response`). Without the script everything can be read; with it tables are filtered and sorted.
- Light and dark, phones and paper are the kit's business; so are patterns and signs for those who see no colours, and
  numbers for those who see no pictures.
"""

from headrace.pages.blocks import Section, Tile, banner, notes, terms, tiles
from headrace.pages.charts import Chart, ChartRow, Series, bars, columns, lines, sparkline
from headrace.pages.documents import Document, Header, document, response, save
from headrace.pages.filters import TableColumn
from headrace.pages.heat_maps import HeatMap, HeatMark, HeatRow, heat_map, runs
from headrace.pages.markup import Html, element, is_followed, items, join, link, paragraphs, plain, text
from headrace.pages.tables import Cell, Listing, ServedRows, filter_url, moment, served_table, table, table_section
from headrace.pages.tones import TONES, mark
from headrace.pages.words import ENGLISH_WORDS, LANGUAGES, Texts, Words

__all__ = [
    "Header",
    "Section",
    "document",
    "save",
    "response",
    "Document",
    "Texts",
    "Words",
    "LANGUAGES",
    "ENGLISH_WORDS",
    "Tile",
    "tiles",
    "notes",
    "banner",
    "terms",
    "Listing",
    "TableColumn",
    "Cell",
    "table",
    "table_section",
    "ServedRows",
    "served_table",
    "filter_url",
    "Chart",
    "Series",
    "ChartRow",
    "bars",
    "columns",
    "lines",
    "sparkline",
    "HeatMap",
    "HeatMark",
    "HeatRow",
    "heat_map",
    "runs",
    "TONES",
    "mark",
    "Html",
    "element",
    "join",
    "link",
    "text",
    "plain",
    "items",
    "paragraphs",
    "moment",
    "is_followed",
]
