"""Who is told of a project: those that it names, by kind, and for kinds that it does not name those of the settings.

An address of a webhook often holds a token, so it is shown to nobody in full, nor is its secret. Neither is part of an
event: what they are is looked up when something is sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

from headrace_smap.database import Database

RECEIVERS_MAX = 20
URL_CHARS_MAX = 2_000
SECRET_CHARS_MAX = 200
MAIL, ZALO, WEBHOOK = "mail", "zalo", "webhook"
# One address and nothing more: it becomes part of a header.
_MAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_ZALO = re.compile(r"[0-9]{1,40}")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{20,}={0,2}")


@dataclass(frozen=True, slots=True)
class Receiver:
    """Whom one message goes to. `name` tells apart those of a project; it is empty for those of the settings, which get
    one message for all addresses."""

    channel: str
    addresses: tuple[str, ...] = field(repr=False)
    name: str = ""
    secret: str = field(default="", repr=False)


def _checked(pattern: re.Pattern[str], words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(words)
        return text

    return check


MailAddress = Annotated[str, Field(max_length=254), AfterValidator(_checked(_MAIL, "write an address such as an@x.vn"))]
ZaloUser = Annotated[str, AfterValidator(_checked(_ZALO, "the id of a follower is digits, such as 186729651760683225"))]


class WebhookReceiver(BaseModel):
    """A webhook in the form of Standard Webhooks."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: Annotated[SecretStr, Field(max_length=URL_CHARS_MAX)]
    secret: Annotated[SecretStr, Field(max_length=SECRET_CHARS_MAX)]

    @field_validator("url")
    @classmethod
    def _web(cls, url: SecretStr) -> SecretStr:
        if not web_host(url.get_secret_value()):
            raise ValueError("write https://host/path, without a user name")
        return url

    @field_validator("secret")
    @classmethod
    def _key(cls, secret: SecretStr) -> SecretStr:
        if not _SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("write whsec_ and a Base64 text of 24 bytes or more")
        return secret


class Receivers(BaseModel):
    """Who is told of a project, by kind. A kind that is left out goes to the receivers of the settings, an empty list
    to nobody."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    mail: Annotated[list[MailAddress], Field(max_length=RECEIVERS_MAX)] | None = None
    zalo: Annotated[list[ZaloUser], Field(max_length=RECEIVERS_MAX)] | None = None
    webhook: Annotated[list[WebhookReceiver], Field(max_length=RECEIVERS_MAX)] | None = None

    def stored(self) -> dict[str, Any]:
        """With its secrets, for the database."""
        return self._written(lambda hook: {"url": _open(hook.url), "secret": _open(hook.secret)})

    def shown(self) -> dict[str, Any]:
        """For people: an address of a webhook up to its host."""
        return self._written(lambda hook: {"url": f"{_origin(_open(hook.url))}/…", "secret": "set"})

    def each(self) -> Iterator[Receiver]:
        for channel, addresses in ((MAIL, self.mail), (ZALO, self.zalo)):
            for address in dict.fromkeys(addresses or ()):
                yield Receiver(channel, (address,), address)
        for hook in self.webhook or ():
            url = _open(hook.url)
            digest = hashlib.blake2b(url.encode(), digest_size=6).hexdigest()
            yield Receiver(WEBHOOK, (url,), f"{_origin(url)} {digest}", _open(hook.secret))

    @property
    def channels(self) -> frozenset[str]:
        """The kinds that it names."""
        named = {MAIL: self.mail, ZALO: self.zalo, WEBHOOK: self.webhook}
        return frozenset(name for name, given in named.items() if given is not None)

    def _written(self, webhook: Callable[[WebhookReceiver], dict[str, str]]) -> dict[str, Any]:
        written: dict[str, Any] = self.model_dump(include={MAIL, ZALO}, exclude_none=True)
        return written if self.webhook is None else {**written, WEBHOOK: [webhook(hook) for hook in self.webhook]}


class ReceiverBook:
    """Who is told of which project."""

    def __init__(self, database: Database, defaults: Sequence[Receiver] = ()) -> None:
        self._database, self._defaults = database, tuple(defaults)

    async def own(self, project: str) -> Receivers | None:
        """Those that the project names; None: it names none of any kind."""
        rows = await self._database.rows("receivers_get", project=project)
        return Receivers.model_validate(rows[0][0]) if rows else None

    async def of(self, project: str) -> list[Receiver]:
        own = await self.own(project)
        if own is None:
            return list(self._defaults)
        return [*own.each(), *(each for each in self._defaults if each.channel not in own.channels)]

    async def set(self, project: str, receivers: Receivers | None) -> None:
        """From now on these; None: those of the settings."""
        if receivers is None:
            await self._database.rows("receivers_forget", project=project)
        else:
            await self._database.rows("receivers_set", project=project, receivers=receivers.stored())


def web_host(url: str) -> str:
    """The host of an address of the web that holds no password; nothing if it is none."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return ""
    return parts.hostname or "" if sound and url.isprintable() and " " not in url else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _open(secret: SecretStr) -> str:
    return secret.get_secret_value()
