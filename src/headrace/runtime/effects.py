"""Effects as people see them: what stands in a sink, and what was left behind there.

The sink's own key table is the list. The store knows how the item of each key ended: an effect of one that died or was
cancelled, in a sink that shares no transaction with the account, is *left behind*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.effects import EffectOwner, is_left_behind, owner_of
from headrace.core.errors import NotFound, UnknownStage
from headrace.core.jobs import DeadFilter
from headrace.ports.inspector import Inspector
from headrace.ports.sink import EffectView, Sink

PAGE = 200
LETTERS_MAX = 10_000
States = Mapping[tuple[str, str, int], str]


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One effect with the state of its item; empty if the key is no item's, or nothing remembers the item any more."""

    effect: EffectView
    sink: str
    guarantee: str
    owner: EffectOwner | None
    state: str

    @property
    def left_behind(self) -> bool:
        return is_left_behind(self.guarantee, self.state)


async def every_effect(sink: Sink, inspector: Inspector, prefix: str = "") -> AsyncIterator[EffectLine]:
    """All effects whose key begins with `prefix`, in order of key, with how their items stand."""
    after = ""
    while page := await sink.effects(prefix, after, PAGE):
        for line in lines(sink, page, await states_of(inspector, page)):
            yield line
        after = page[-1].key


async def left_behind(sink: Sink, inspector: Inspector, prefix: str = "") -> AsyncIterator[EffectLine]:
    """Only those that an earlier attempt of a dead or cancelled item left in the sink."""
    async for line in every_effect(sink, inspector, prefix):
        if line.left_behind:
            yield line


def lines(sink: Sink, effects: Iterable[EffectView], states: States) -> list[EffectLine]:
    """Effects joined with the states of their items."""
    found = []
    for effect in effects:
        owner = owner_of(effect.key)
        state = states.get((owner.job, owner.stage, owner.seq), "") if owner is not None else ""
        found.append(EffectLine(effect, sink.name, sink.guarantee, owner, state))
    return found


async def states_of(inspector: Inspector, effects: Iterable[EffectView]) -> dict[tuple[str, str, int], str]:
    """How the items of these effects stand, by (job, stage, seq)."""
    wanted: dict[tuple[str, str], set[int]] = {}
    for effect in effects:
        owner = owner_of(effect.key)
        if owner is not None:
            wanted.setdefault((owner.job, owner.stage), set()).add(owner.seq)
    states: dict[tuple[str, str, int], str] = {}
    for (job, stage), seqs in wanted.items():
        for seq, state in (await _states(inspector, job, stage, sorted(seqs))).items():
            states[job, stage, seq] = state
    return states


async def _states(inspector: Inspector, job: str, stage: str, seqs: Sequence[int]) -> dict[int, str]:
    try:
        found = await _items(inspector, job, stage, seqs)
        if len(found) < len(seqs):
            # Retention dropped the items; their dead letters stay longer.
            letters = await inspector.dead(DeadFilter(job=job, stage=stage, limit=LETTERS_MAX))
            found.update((letter.seq, "dead") for letter in letters if letter.seq not in found)
    except (NotFound, UnknownStage):
        return {}
    return {seq: found[seq] for seq in seqs if seq in found}


async def _items(inspector: Inspector, job: str, stage: str, seqs: Sequence[int]) -> dict[int, str]:
    """Items of one stage page by page, beginning each page at the next one that is asked for."""
    known: dict[int, str] = {}
    read_to = -1
    for seq in seqs:
        if seq in known or seq <= read_to:
            continue
        page = await inspector.items(job, stage, seq - 1, PAGE)
        known.update((item.seq, item.state) for item in page)
        read_to = page[-1].seq if page else max(seqs)
    return {seq: known[seq] for seq in seqs if seq in known}
