"""One reader of settings: by precedence, by type, within bounds, and refused by the name that was used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import CallerError
from headrace.services import Sources, read, setting, table
from headrace.services.settings import help_of

PREFIX = "SHOP_"


def even(text: str) -> int:
    if int(text) % 2:
        raise ValueError("is odd")
    return int(text)


@dataclass(frozen=True, slots=True)
class Shop:
    home: Path = setting(Path("shop-data"), "where files are")
    port: int | None = setting(None, "where to listen", low=0, high=65_535, without="any free port")
    pause_s: float = setting(1.5, "seconds between two looks", low=0.01)
    open_at_night: bool = setting(False, "whether it is open at night")
    names: tuple[str, ...] = setting(("a", "b"), "who works there")
    key: str = setting("", "asked of every request", secret=True, parse=lambda text: text)
    pairs: int = setting(2, "an even number", parse=even, secret=True)
    region: str = setting("vn", "where it is", variable="AWS_REGION")
    plain: str = "no setting at all"


def shop(environment: dict[str, str] | None = None, **flags: Any) -> Shop:
    return read(Shop, Sources(PREFIX, environment or {}, flags, {}, "shop.toml"))


def test_what_is_not_said_has_its_default_and_an_empty_variable_says_nothing() -> None:
    assert shop() == shop({"SHOP_PORT": "", "SHOP_PAUSE_S": "  ", "SHOP_PLAIN": "x"}) == Shop()


def test_a_text_becomes_a_value_of_its_type() -> None:
    environment = {
        "SHOP_HOME": "/srv",
        "SHOP_PORT": " 80 ",
        "SHOP_PAUSE_S": "2",
        "SHOP_OPEN_AT_NIGHT": "Yes",
        "SHOP_NAMES": "x, y,",
        "SHOP_PAIRS": "4",
        "AWS_REGION": "eu",
    }
    assert shop(environment) == Shop(Path("/srv"), 80, 2.0, True, ("x", "y"), "", 4, "eu")


def test_a_flag_beats_the_environment_and_that_beats_the_file() -> None:
    file = {"port": 1, "pause_s": 1, "names": ["n"], "open_at_night": True}
    environment = {"SHOP_PORT": "2", "SHOP_PAUSE_S": "2"}
    found = read(Shop, Sources(PREFIX, environment, {"port": 3, "pause_s": None}, file, "shop.toml"))
    assert (found.port, found.pause_s, found.names, found.open_at_night) == (3, 2.0, ("n",), True)


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("SHOP_PORT", "many", "SHOP_PORT = 'many' is not a whole number"),
        ("SHOP_PORT", "1.5", "is not a whole number"),
        ("SHOP_PORT", "1_0", "is not a whole number"),
        ("SHOP_PORT", "٣", "is not a whole number"),
        ("SHOP_PORT", "70000", "SHOP_PORT = 70000 is not from 0 to 65,535"),
        ("SHOP_PAUSE_S", "nan", "is not a number"),
        ("SHOP_PAUSE_S", "inf", "is not a number"),
        ("SHOP_PAUSE_S", "0", "is not 0.01 or more"),
        ("SHOP_OPEN_AT_NIGHT", "perhaps", "is not a switch"),
        ("SHOP_PAIRS", "3", "SHOP_PAIRS = … is odd"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(variable: str, text: str, said: str) -> None:
    with pytest.raises(CallerError) as caught:
        shop({variable: text})
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_flag_and_a_file_are_refused_by_the_names_they_have_there() -> None:
    with pytest.raises(CallerError, match=r"^--pause-s = 0 is not"):
        shop(pause_s=0)
    with pytest.raises(CallerError, match=r"^shop.toml: port = True is not"):
        read(Shop, Sources(PREFIX, {}, {}, {"port": True}, "shop.toml"))
    with pytest.raises(CallerError, match=r"^shop.toml sets 'prot'"):
        read(Shop, Sources(PREFIX, {}, {}, {"prot": 1}, "shop.toml"))


def test_a_secret_is_shown_nowhere() -> None:
    assert "hush" not in repr(shop({"SHOP_KEY": "hush"}))
    with pytest.raises(CallerError) as caught:
        shop({"SHOP_PAIRS": "hush"})
    assert "hush" not in f"{caught.value.args[0].partition('…')[0]} {caught.value.hint}"


def test_the_docs_and_the_help_are_made_of_the_declaration() -> None:
    rows = table(Shop, PREFIX).splitlines()
    assert rows[3] == "| `SHOP_PORT` | where to listen | any free port |"
    assert rows[6] == "| `SHOP_NAMES` | who works there | `a,b` |"
    assert rows[-1] == "| `AWS_REGION` | where it is | `vn` |"
    assert help_of(Shop, PREFIX, "pause_s") == "Seconds between two looks (SHOP_PAUSE_S)."
