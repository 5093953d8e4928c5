"""People are told of late symbols: by a command, by a webhook, or by both, once for each symbol and trading day.

Of whom they were told is written in the transaction in which they are told, and committed afterwards: what could not be
delivered is delivered by the next run, and of two runs at once one tells. Each channel has its own transaction, so that
one that fails has the other repeat nothing. A process killed between a delivery and its commit leaves a repeat to the
next run, under the same id: whether the delivery arrived nobody can ask.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from headrace.errors import CallerError, OperatorError
from headrace.services import Sources, read, setting
from headrace_silver.quality import late_symbols
from headrace_silver.quality.late_symbols import Late
from headrace_silver.records.rules import PREFIX
from headrace_silver.stores.silver_store import SilverStore

COMMAND_VARIABLE, WEBHOOK_VARIABLE = f"{PREFIX}LATE_COMMAND", f"{PREFIX}LATE_WEBHOOK"
ID_VARIABLE = f"{PREFIX}ALERT_ID"
NAMES_MAX = 50
# Other writers of a SQLite file wait meanwhile, and they wait for 30 s.
DELIVERY_S_MAX = 10.0
KEPT = timedelta(days=400)


class UndeliveredAlert(OperatorError):
    """A channel told nobody; what it was to tell is told by the next run."""


@dataclass(frozen=True, slots=True)
class LateAlert:
    """What people are told. The id follows from the day and the symbols, so that a repeat has the same."""

    id: str
    text: str
    document: Mapping[str, Any]

    @classmethod
    def of(cls, found: Late) -> LateAlert:
        named = json.dumps([found.day.isoformat(), sorted(entry.symbol for entry in found.late)])
        return cls(
            f"late-{hashlib.sha256(named.encode()).hexdigest()[:32]}", text_of(found), late_symbols.document(found)
        )


Deliver = Callable[[LateAlert], None]


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """How people are told of late symbols."""

    late_command: str = setting(
        "", "`late --alert`: gets the text on its standard input, `mail -s late ops@example.com`"
    )
    late_webhook: str = setting("", "`late --alert`: gets a JSON document with `text` by POST", secret=True)

    def __post_init__(self) -> None:
        if self.late_webhook and not self.late_webhook.startswith(("http://", "https://")):
            raise CallerError(f"{WEBHOOK_VARIABLE} is no address", "https://hooks.example.com/…")
        try:
            shlex.split(self.late_command)
        except ValueError as error:
            raise CallerError(f"{COMMAND_VARIABLE} cannot be read: {error}", "close its quotes") from None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> AlertSettings:
        return read(cls, Sources(PREFIX, environment))

    def channels(self) -> dict[str, Deliver]:
        """Every channel that is set, by its name; a delivery that fails raises `UndeliveredAlert`."""
        channels: dict[str, Deliver] = {}
        if self.late_command:
            channels["command"] = partial(_run, shlex.split(self.late_command))
        if self.late_webhook:
            channels["webhook"] = partial(_post, self.late_webhook)
        if not channels:
            raise CallerError("nothing says whom to tell", f"set {COMMAND_VARIABLE} or {WEBHOOK_VARIABLE}")
        return channels


def alert(store: SilverStore, found: Late, channels: Mapping[str, Deliver]) -> list[str]:
    """Tell people of the late symbols that they were not told of for this day; which these are.

    Every channel is tried before `UndeliveredAlert` says which of them failed.
    """
    told: set[str] = set()
    failures: list[str] = []
    for channel, deliver in channels.items():
        try:
            told |= _alert(store, found, channel, deliver)
        except UndeliveredAlert as error:
            failures.append(str(error))
    if failures:
        raise UndeliveredAlert("; ".join(failures), "the next run tries again")
    return sorted(told)


def _alert(store: SilverStore, found: Late, channel: str, deliver: Deliver) -> set[str]:
    symbols = json.dumps([entry.symbol for entry in found.late] if found.known else [""])
    with store.transaction():
        store.rows("alerts_forget", {"before": found.day - KEPT})
        claimed = store.rows("alerts_claim", {"day": found.day, "symbols": symbols, "channel": channel})
        new = {row[0] for row in claimed}
        if new:
            deliver(LateAlert.of(replace(found, late=[entry for entry in found.late if entry.symbol in new])))
    return new


def text_of(found: Late) -> str:
    """One paragraph for people."""
    if not found.known:
        return f"silver: there is no bar of any symbol that still trades (asked for {found.day})."
    names = [f"{entry.symbol} (last bar {entry.last_day})" for entry in found.late[:NAMES_MAX]]
    more = f" and {len(found.late) - NAMES_MAX:,} more" if len(found.late) > NAMES_MAX else ""
    return (
        f"silver: {len(found.late):,} of {found.known:,} symbols lack a bar for {found.day}: {', '.join(names)}{more}."
    )


def _run(line: list[str], told: LateAlert) -> None:
    try:
        done = subprocess.run(
            line,
            input=told.text + "\n",
            env={**os.environ, ID_VARIABLE: told.id},
            capture_output=True,
            encoding="utf-8",
            # What it says is only ever shown.
            errors="replace",
            timeout=DELIVERY_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _undelivered(COMMAND_VARIABLE, str(error)) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise _undelivered(COMMAND_VARIABLE, f"exit code {done.returncode}{f', {said[-1]}' if said else ''}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is sent on arrives as a GET without its document."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _post(url: str, told: LateAlert) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "headrace-silver", "webhook-id": told.id}
    document = json.dumps({"id": told.id, "text": told.text, **told.document})
    request = urllib.request.Request(url, document.encode(), headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=DELIVERY_S_MAX):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise _undelivered(WEBHOOK_VARIABLE, f"it answers {error.code}") from None
    except (OSError, ValueError) as error:
        # An address is a secret, and messages may quote it.
        raise _undelivered(WEBHOOK_VARIABLE, type(error).__name__) from None


def _undelivered(variable: str, why: str) -> UndeliveredAlert:
    return UndeliveredAlert(f"late symbols were not told by {variable}: {why}")
