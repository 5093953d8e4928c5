"""The receipt of a demo: what happened, as it was read afterwards, and whether it is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol, cast

from headrace.cli.failures import Exit
from headrace.cli.session import Session


class Receipt(Protocol):
    """A frozen dataclass; with `--json` its fields are the document."""

    @property
    def right(self) -> bool:
        """Whether everything ended as it should."""

    @property
    def rows(self) -> Mapping[str, object]:
        """Its lines for people, by what they count."""

    @property
    def sentence(self) -> str:
        """What it comes to."""


def answer_receipt(session: Session, receipt: Receipt) -> int:
    """Show the receipt; the exit code says whether it is right."""

    def show(console: Any) -> None:
        from headrace.cli.tables import plain_table

        table = plain_table("receipt", "")
        for name, value in receipt.rows.items():
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
        console.print(table)
        console.print(receipt.sentence if receipt.right else f"[red]{receipt.sentence}[/]")

    session.answer(asdict(cast("Any", receipt)), show)
    return Exit.OK if receipt.right else Exit.FAILED
