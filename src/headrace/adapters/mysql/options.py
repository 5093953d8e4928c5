"""How a MySQL or MariaDB is reached: what a URL says, and what is decided where it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.core.errors import CallerError
from headrace.core.redaction import redacted

FORM = "mysql://user:password@host:3306/database?tls=verify_identity&tls_ca=/etc/ca.pem"
PORT = 3306


class Tls(StrEnum):
    """How a connection is protected. `preferred` takes what the server offers and trusts it unseen."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class MysqlOptions:
    """Where the database is and how it is used. `lock_wait_s` is what a statement waits for a row that others hold,
    `answer_s` what any answer may take; `lanes` connections are open at most. Without `bulk`, rows by the thousand go
    as text, also where the server takes them in bulk."""

    host: str
    database: str
    port: int = PORT
    user: str = ""
    password: str = field(default="", repr=False)
    tls: Tls = Tls.PREFERRED
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    connect_s: float = 5.0
    answer_s: float = 60.0
    lock_wait_s: float = 10.0
    lanes: int = 8
    bulk: bool = True

    def __post_init__(self) -> None:
        if min(self.connect_s, self.answer_s, self.lock_wait_s, self.lanes) <= 0:
            raise CallerError("connect_s, answer_s, lock_wait_s and lanes are above 0")
        if self.tls in (Tls.VERIFY_CA, Tls.VERIFY_IDENTITY) and not self.tls_ca:
            raise CallerError(f"tls={self.tls} needs the authority to trust", "tls_ca=/path/of/ca.pem")

    @property
    def where(self) -> str:
        """Its name for people: never with the password."""
        user = f"{self.user}@" if self.user else ""
        return f"mysql://{user}{self.host}:{self.port}/{self.database}"

    @classmethod
    def of(cls, url: str) -> MysqlOptions:
        """Understand a URL, or say how one looks."""
        try:
            parts = urlsplit(url)
            port = parts.port or PORT
        except ValueError as error:
            raise CallerError(f"{redacted(url)} is not a URL: {error}", f"write {FORM}") from None
        database = unquote(parts.path[1:])
        if parts.scheme != "mysql" or not parts.hostname or not database or "/" in database:
            raise CallerError(f"{redacted(url)!r} is not the URL of a MySQL database", f"write {FORM}")
        named = {name: _option(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        return cls(
            parts.hostname, database, port, unquote(parts.username or ""), unquote(parts.password or ""), **named
        )


def _option(name: str, value: str) -> Any:
    kinds = {each.name: each.type for each in fields(MysqlOptions)[5:]}
    if name not in kinds:
        raise CallerError(f"there is no option {name!r} of a mysql:// URL", f"options: {', '.join(kinds)}")
    try:
        match kinds[name]:
            case "float":
                return float(value)
            case "int":
                return int(value)
            case "bool":
                return {"on": True, "off": False}[value]
            case "Tls":
                return Tls(value)
    except (ValueError, KeyError):
        choices = {"bool": "on or off", "Tls": ", ".join(Tls)}.get(str(kinds[name]), "a number")
        raise CallerError(f"{name}={value} in a mysql:// URL is not right", f"write {choices}") from None
    return value
