"""The process behind `SmtpServer`: accept mail, put it on disk, answer.

A mail is two files: its envelope, and then the message under its final name, which makes it count. Both are synced
before the client hears 250, so a kill at any moment leaves either an accepted mail or none.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class MailSink:
    """What happens to a recipient and to a mail. The names of the methods are those that aiosmtpd looks for."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._mails = Path(orders["mails"])
        self._refuse = re.compile(orders["refuse"]) if orders.get("refuse") else None
        self._busy = orders["busy_first"]
        self._delay_s = orders["delay_s"]

    async def handle_RCPT(self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]) -> str:  # noqa: N802
        if self._refuse is not None and self._refuse.search(address):
            return "550 5.1.1 no such mailbox here"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 recipient accepted"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802
        if self._busy > 0:
            self._busy -= 1
            return "451 4.3.0 try again later"
        self._keep(envelope)
        await asyncio.sleep(self._delay_s)
        return "250 2.0.0 kept"

    def _keep(self, envelope: Envelope) -> None:
        now = time.time_ns()
        path = self._mails / f"{now:020d}.eml"
        told = {"sender": envelope.mail_from, "recipients": envelope.rcpt_tos, "received_at": now / 1e9}
        _write(path.with_suffix(".json"), json.dumps(told).encode())
        _write(path, envelope.original_content or b"")
        directory = os.open(self._mails, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        print(f"kept {path.name} from {envelope.mail_from} for {', '.join(envelope.rcpt_tos)}", flush=True)


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _protocol(sink: MailSink, orders: dict[str, Any]) -> SMTP:
    """One conversation. Without TLS a password goes in the clear, which loopback can bear."""

    def check(_: SMTP, __: Session, ___: Envelope, ____: str, given: Any) -> AuthResult:
        wanted = f"{orders['user']}\0{orders['password']}".encode()
        got = given.login + b"\0" + given.password if isinstance(given, LoginPassword) else b""
        return AuthResult(success=hmac.compare_digest(wanted, got), handled=False)

    guarded = "user" in orders
    return SMTP(
        sink,
        hostname="localhost",
        enable_SMTPUTF8=True,
        authenticator=check if guarded else None,
        auth_required=guarded,
        auth_require_tls=False,
    )


async def serve(orders: dict[str, Any]) -> None:
    sink = MailSink(orders)
    server = await asyncio.get_running_loop().create_server(
        lambda: _protocol(sink, orders), "127.0.0.1", orders["port"]
    )
    print(f"listening on 127.0.0.1:{orders['port']}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
