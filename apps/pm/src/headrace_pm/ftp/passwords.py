"""Passwords by reference: tables say where a password is (`env:NAME`, `file:PATH`), never what it is.

For SFTP it may be a private key instead, as `ssh-keygen` writes it.
It is read when a connection is made, so that a changed one counts from then on, and it is kept nowhere: what holds it
while it is sent shows stars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CallerError
from headrace_pm.ftp.errors import PasswordMissing

HIDDEN = "***"
FORMS = "write env:NAME or file:PATH"


@dataclass(frozen=True, slots=True)
class PasswordReference:
    """Where a password is."""

    kind: str
    place: str

    @classmethod
    def read(cls, text: str) -> PasswordReference:
        """The reference in a `password_ref`. What is none is not repeated: it may be a password."""
        kind, colon, place = text.partition(":")
        if not colon or not place.strip() or kind not in ("env", "file"):
            raise CallerError("a password_ref is neither env:NAME nor file:PATH", FORMS)
        return cls(kind, place.strip())

    def reveal(self, variables: Mapping[str, str]) -> Secret:
        """The password now."""
        if self.kind == "env":
            found = variables.get(self.place, "")
        else:
            try:
                found = Path(self.place).read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is not UTF-8"
                raise PasswordMissing(
                    f"{self} cannot be read: {why}", "it holds the password and nothing else"
                ) from None
        secret = Secret(found)
        if not found or (not secret.is_key and ("\n" in found or "\r" in found)):
            raise PasswordMissing(f"{self} holds no password of one line", FORMS)
        return secret

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"


class Secret:
    """A password in use. `repr`, `str` and formatting show stars; `value` is for the wire alone."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    @property
    def is_key(self) -> bool:
        """Whether it is a private key, by which SFTP lets us in as well as by a password."""
        return self.value.startswith("-----BEGIN ") and "PRIVATE KEY-----" in self.value.partition("\n")[0]

    def removed_from(self, text: str) -> str:
        """A text of the server, without the password: some repeat what they were told."""
        return text.replace(self.value, HIDDEN)
