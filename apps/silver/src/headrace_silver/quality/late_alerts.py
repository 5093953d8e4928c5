"""People are told of late symbols: by a command, by a webhook, or by both, once for each symbol and trading day.

Of whom they were told is written in the transaction in which they are told, and committed afterwards: what could not be
delivered is delivered by the next run, and of two runs at once one tells. If the answer to a delivery is lost, it is
repeated.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from headrace.errors import CallerError, OperatorError
from headrace.services import Sources, read, setting
from headrace_silver.quality import late_symbols
from headrace_silver.quality.late_symbols import Late
from headrace_silver.records.rules import PREFIX
from headrace_silver.stores.silver_store import SilverStore

COMMAND_VARIABLE, WEBHOOK_VARIABLE = f"{PREFIX}LATE_COMMAND", f"{PREFIX}LATE_WEBHOOK"
NAMES_MAX = 50
# Other writers of a SQLite file wait meanwhile, and they wait for 30 s.
DELIVERY_S_MAX = 10.0
KEPT = timedelta(days=400)

Deliver = Callable[[str, Mapping[str, Any]], None]


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

    def delivery(self) -> Deliver:
        """By every channel that is set: raises an `OperatorError` at the first that fails."""
        if not (self.late_command or self.late_webhook):
            raise CallerError("nothing says whom to tell", f"set {COMMAND_VARIABLE} or {WEBHOOK_VARIABLE}")
        return self._deliver

    def _deliver(self, text: str, document: Mapping[str, Any]) -> None:
        if self.late_command:
            _run(shlex.split(self.late_command), text)
        if self.late_webhook:
            _post(self.late_webhook, {"text": text, **document})


def alert(store: SilverStore, found: Late, deliver: Deliver) -> list[str]:
    """Tell people of the late symbols that they were not told of for this day; which these are."""
    symbols = [entry.symbol for entry in found.late] if found.known else [""]
    with store.transaction():
        store.rows("alerts_forget", {"before": found.day - KEPT})
        told = store.rows("alerts_claim", {"day": found.day, "symbols": json.dumps(symbols)})
        new = {row[0] for row in told}
        if new:
            fresh = replace(found, late=[entry for entry in found.late if entry.symbol in new])
            deliver(text_of(fresh), late_symbols.document(fresh))
    return sorted(new)


def text_of(found: Late) -> str:
    """One paragraph for people."""
    if not found.known:
        return f"silver: there is no bar of any symbol that still trades (asked for {found.day})."
    names = [f"{entry.symbol} (last bar {entry.last_day})" for entry in found.late[:NAMES_MAX]]
    more = f" and {len(found.late) - NAMES_MAX:,} more" if len(found.late) > NAMES_MAX else ""
    return (
        f"silver: {len(found.late):,} of {found.known:,} symbols lack a bar for {found.day}: {', '.join(names)}{more}."
    )


def _run(line: list[str], text: str) -> None:
    try:
        done = subprocess.run(
            line, input=text + "\n", capture_output=True, text=True, timeout=DELIVERY_S_MAX, check=False
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


def _post(url: str, document: Mapping[str, Any]) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "headrace-silver"}
    request = urllib.request.Request(url, json.dumps(document).encode(), headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=DELIVERY_S_MAX):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise _undelivered(WEBHOOK_VARIABLE, f"it answers {error.code}") from None
    except (OSError, ValueError) as error:
        # An address is a secret, and messages may quote it.
        raise _undelivered(WEBHOOK_VARIABLE, type(error).__name__) from None


def _undelivered(variable: str, why: str) -> OperatorError:
    return OperatorError(f"nobody was told of late symbols: {variable} failed: {why}", "the next run tries again")
