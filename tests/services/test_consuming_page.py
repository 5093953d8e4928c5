"""What docs/consuming.md says of defaults is so; what it shows is run with the other pages."""

from __future__ import annotations

import dataclasses
import re

from pages import ROOT

from headrace.consuming import ConsumerOptions

PAGE = "docs/consuming.md"


def test_the_page_names_every_option_with_its_default() -> None:
    told = re.search(r"`ConsumerOptions\((.*?)\)`\. ", (ROOT / PAGE).read_text("utf-8"))
    assert told is not None
    options = dict(each.split("=") for each in told[1].split(", "))
    known = {field.name: getattr(ConsumerOptions(), field.name) for field in dataclasses.fields(ConsumerOptions)}
    del known["seams"]
    assert options.pop("retry") == f"{type(known.pop('retry')).__name__}()"
    assert {name: value.strip('"') for name, value in options.items()} == {
        name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in known.items()
    }
