"""Values on their way to the server: payloads as binary arrays, everything small beside them as JSON."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.core.claims import Loss, Settlement
from headrace.core.graph import Graph, Kind
from headrace.core.parcels import Parcel, check_keys
from headrace.core.retry import groups
from headrace.core.rotation import Turn

KINDS = {Kind.WORK: 0, Kind.BARRIER: 1, Kind.EXTERNAL: 2}
TENANTS_SENT_MAX = 64


def ends_to_bytes(ends: Sequence[int]) -> bytes:
    """32-bit numbers in network order."""
    packed = array("I", ends)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def ends_from_bytes(data: bytes) -> array[int]:
    ends: array[int] = array("I")
    ends.frombytes(data)
    if sys.byteorder == "little":
        ends.byteswap()
    return ends


def bits_to_text(bits: int) -> str:
    """A bit string whose leftmost digit is bit 0."""
    return f"{bits:b}"[::-1] if bits else ""


def bits_from_text(text: str | None) -> int:
    return int(text[::-1], 2) if text else 0


@dataclass(slots=True)
class Cargo:
    """Payloads of one call; a description names its payload by a number that counts from 1."""

    payloads: list[bytes] = field(default_factory=list)
    ends: list[bytes] = field(default_factory=list)

    def load(self, payload: bytes, ends: Sequence[int] = ()) -> int:
        self.payloads.append(payload)
        self.ends.append(ends_to_bytes(ends))
        return len(self.payloads)

    def parcel(self, parcel: Parcel, **more: object) -> dict[str, object]:
        check_keys(parcel.keys or ())
        return {
            "at": self.load(parcel.payload, parcel.ends),
            "stage": parcel.stage,
            "count": parcel.count,
            "keys": parcel.keys,
            "depth": parcel.depth,
            "delay_s": parcel.delay_s,
            "number": parcel.number,
            **more,
        }


def settlement_details(settlement: Settlement, cargo: Cargo) -> str | None:
    """Everything but the done items, as JSON; None in the ordinary case."""
    detail: dict[str, Any] = {}
    if settlement.dead:
        detail["dead"] = [loss_details(loss) for loss in settlement.dead]
    if settlement.again:
        detail["again"] = [(group.delay_s, group.attempt, group.indexes) for group in groups(settlement.again)]
    if settlement.sends:
        detail["sends"] = [cargo.parcel(parcel) for parcel in settlement.sends]
    if settlement.flips:
        detail["flips"] = settlement.flips
    if settlement.cursor is not None:
        index, cursor = settlement.cursor
        detail["cursor"] = (index, cargo.load(cursor))
    if settlement.back is not None and not settlement.end:
        detail["back"] = settlement.back
    return json.dumps(detail) if detail else None


def loss_details(loss: Loss) -> dict[str, object]:
    return {
        "index": loss.index,
        "reason": loss.reason,
        "rule": loss.rule,
        "error": loss.error,
        "fingerprint": loss.fingerprint,
        "attempts": loss.attempts,
        "traceback": loss.traceback,
    }


def turn_details(turn: Turn) -> dict[str, object]:
    """A place in the rotation, with no more tenants than may come up in one call."""
    return {"served": turn.served, "tenant": turn.tenant, "jobs": turn.ahead(TENANTS_SENT_MAX)}


def stage_rows(graph: Graph) -> list[dict[str, object]]:
    """What the account needs to know of each stage, as positions."""
    rows = []
    for position, spec in enumerate(graph.stages):
        rows.append(
            {
                "position": position,
                "name": spec.name,
                "kind": KINDS[spec.kind],
                "feeders": graph.feeders(position),
                "arrows": graph.arrows(position),
                "feeds": [graph.position(name) for name in spec.feeds],
                "upstream": sorted(graph.upstream(position)),
                "after_positions": [graph.position(name) for name in spec.after],
                "unique_keys": spec.unique,
                "always": spec.always,
                "every_generation": spec.every_generation,
                "stop_early": spec.stop_early,
                "tolerate_count": spec.tolerate.count,
                "tolerate_percent": spec.tolerate.percent,
                "deadline_s": spec.deadline_s,
            }
        )
    return rows
