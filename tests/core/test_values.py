"""The decisions of `core`: graphs, tolerance, retries, parcels, bit planes, and who is charged for a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.core import bits
from headrace.core.claims import CRASHES_MAX
from headrace.core.errors import InvalidFlow, TooLarge, UnknownStage
from headrace.core.graph import Graph, Kind, StageSpec
from headrace.core.losses import charge
from headrace.core.outcomes import Dead, Done, Retry, Snooze
from headrace.core.parcels import (
    KEY_CHARS_MAX,
    PARCEL_BYTES_MAX,
    PARCEL_ITEMS_MAX,
    PAYLOAD_BYTES_MAX,
    Encoded,
    pack,
)
from headrace.core.retry import RetryPolicy, backoff, decide
from headrace.core.tally import Tally, Tolerance


def graph(**feeds: tuple[str, ...]) -> Graph:
    return Graph.build(StageSpec(name, feeds=targets) for name, targets in feeds.items())


class TestGraph:
    def test_every_arrow_points_forward(self) -> None:
        found = graph(d=(), b=("d",), c=("d",), a=("b", "c"))
        assert [spec.name for spec in found.stages] == ["a", "b", "c", "d"]
        assert all(target > position for position in range(4) for target in found.arrows(position))
        assert [found.feeders(position) for position in range(4)] == [0, 1, 1, 2]

    def test_a_stage_that_feeds_itself_does_not_wait_for_itself(self) -> None:
        found = graph(crawl=("crawl",))
        assert (found.arrows(0), found.feeders(0), found.roots) == ((), 0, ("crawl",))

    def test_a_cycle_over_several_stages_is_refused_with_its_path(self) -> None:
        with pytest.raises(InvalidFlow, match=r"b → c → b|c → b → c"):
            graph(a=("b",), b=("c",), c=("b",))

    def test_an_unknown_stage_is_refused_by_name(self) -> None:
        with pytest.raises(UnknownStage, match="nowhere"):
            graph(a=("nowhere",))
        with pytest.raises(UnknownStage, match="'x'"):
            graph(a=()).position("x")

    def test_two_stages_of_one_name_are_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="two stages"):
            Graph.build([StageSpec("a"), StageSpec("a")])

    def test_a_barrier_takes_no_items(self) -> None:
        with pytest.raises(InvalidFlow, match="takes no items"):
            Graph.build([StageSpec("a", feeds=("end",)), StageSpec("end", Kind.BARRIER, after=("a",))])

    def test_a_barrier_comes_after_something_else(self) -> None:
        with pytest.raises(InvalidFlow, match="comes after nothing"):
            Graph.build([StageSpec("a"), StageSpec("end", Kind.BARRIER)])
        with pytest.raises(InvalidFlow, match="after itself"):
            Graph.build([StageSpec("a"), StageSpec("end", Kind.BARRIER, after=("end",))])

    @pytest.mark.parametrize("name", ["", "a/b", "x" * 101])
    def test_a_name_that_cannot_be_part_of_a_key_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidFlow, match="stage name"):
            Graph.build([StageSpec(name)])

    def test_a_graph_survives_being_written_down(self) -> None:
        stages = [
            StageSpec("a", feeds=("a", "b"), depth_max=3, tolerate=Tolerance(percent=5.0), stop_early=True),
            StageSpec("b", unique=True, tolerate=Tolerance(count=2)),
            StageSpec("ok", Kind.EXTERNAL, after=("b",), deadline_s=60.0),
            StageSpec("end", Kind.BARRIER, after=("b", "ok"), always=True, every_generation=False),
        ]
        built = Graph.build(stages)
        assert Graph.load(built.dump()) == built
        assert Graph.load(built.dump()).digest == built.digest

    def test_a_graph_written_by_newer_code_can_be_read(self) -> None:
        text = graph(a=()).dump().replace('"name":"a"', '"name":"a","unheard_of":1')
        assert Graph.load(text) == graph(a=())


class TestTally:
    def test_tolerance_is_a_count_or_a_share(self) -> None:
        assert Tolerance.parse(2) == Tolerance(count=2)
        assert Tolerance.parse("2.5%") == Tolerance(percent=2.5)

    @pytest.mark.parametrize("value", [-1, "5", "-1%", "101%", "many%", True, 1.5])
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidFlow, match="neither a count nor a share"):
            Tolerance.parse(value)  # type: ignore[arg-type]

    def test_a_limit_is_exceeded_above_it_and_not_at_it(self) -> None:
        assert [Tolerance(count=2).exceeded(dead, 10) for dead in (2, 3)] == [False, True]
        assert [Tolerance(percent=20.0).exceeded(dead, 10) for dead in (2, 3)] == [False, True]
        assert not Tolerance(percent=0.0).exceeded(0, 0)

    def test_tallies_add_up(self) -> None:
        total = Tally(5, 1, 1, 1, 1, 1, True, True) + Tally(2, 0, 0, 2, 0, 0, True, False)
        assert total == Tally(7, 1, 1, 3, 1, 1, True, False)
        assert total.ended == 5


class TestRetry:
    def test_outcomes_become_verdicts(self) -> None:
        policy = RetryPolicy(attempts_max=3, first_s=1.0, jitter=0.0)
        assert decide(0, Done(), policy, 0.0).done
        assert decide(1, Snooze(5.0), policy, 0.0).attempt == 1
        assert decide(0, Retry("x"), policy, 0.0).delay_s == 1.0
        assert decide(1, Retry("x"), policy, 0.0).delay_s == 2.0
        assert decide(0, Retry("x", after_s=9.0), policy, 0.0).delay_s == 9.0
        last = decide(2, Retry("x"), policy, 0.0)
        assert (last.delay_s, last.reason, last.rule, last.attempt) == (None, "x", "attempts_max", 3)
        dead = decide(0, Dead("no", "rule"), policy, 0.0)
        assert (dead.delay_s, dead.reason, dead.rule, dead.attempt) == (None, "no", "rule", 1)

    @given(some.integers(1, 10_000), some.floats(0, 1, exclude_max=True))
    def test_a_wait_stays_within_its_limits(self, attempt: int, chance: float) -> None:
        policy = backoff(5, first_s=0.5, cap_s=60.0)
        assert 0.25 <= policy.delay_s(attempt, chance) <= 60.0

    def test_the_most_specific_policy_wins(self) -> None:
        often = RetryPolicy(attempts_max=99)
        policy = RetryPolicy(per={OSError: often, FileNotFoundError: None})
        assert policy.for_error(FileNotFoundError()) is None
        assert policy.for_error(PermissionError()) is often
        assert policy.for_error(ValueError()) is policy

    def test_a_policy_that_cannot_work_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="cannot work"):
            RetryPolicy(attempts_max=0)


KEYS = some.text(some.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)


class TestParcels:
    @given(some.lists(some.tuples(some.binary(max_size=50), some.none() | KEYS), max_size=1_200))
    def test_nothing_is_lost_or_reordered_in_packing(self, items: list[tuple[bytes, str | None]]) -> None:
        parcels = list(pack("a", (Encoded(payload, key) for payload, key in items)))
        found = []
        for parcel in parcels:
            starts = [0, *parcel.ends[:-1]]
            keys = parcel.keys or (None,) * parcel.count
            found += [
                (parcel.payload[start:end], key) for start, end, key in zip(starts, parcel.ends, keys, strict=True)
            ]
        assert found == items
        assert [parcel.number for parcel in parcels] == list(range(len(parcels)))
        assert all(0 < parcel.count <= PARCEL_ITEMS_MAX for parcel in parcels)

    def test_a_parcel_is_bounded_by_bytes(self) -> None:
        parcels = list(pack("a", [Encoded(bytes(100_000))] * 10))
        assert all(len(parcel.payload) <= PARCEL_BYTES_MAX for parcel in parcels)
        assert sum(parcel.count for parcel in parcels) == 10

    def test_one_large_item_is_a_parcel_of_its_own(self) -> None:
        sizes = [len(parcel.payload) for parcel in pack("a", [Encoded(b"x"), Encoded(bytes(PAYLOAD_BYTES_MAX))])]
        assert sizes == [1, PAYLOAD_BYTES_MAX]

    def test_a_limit_is_refused_by_its_name(self) -> None:
        with pytest.raises(TooLarge, match="PAYLOAD_BYTES_MAX"):
            list(pack("a", [Encoded(bytes(PAYLOAD_BYTES_MAX + 1))]))
        with pytest.raises(TooLarge, match="KEY_CHARS_MAX"):
            list(pack("a", [Encoded(b"", "k" * (KEY_CHARS_MAX + 1))]))


class TestBits:
    @given(some.sets(some.integers(0, 2_000)))
    def test_planes_survive_the_store(self, positions: set[int]) -> None:
        plane = bits.of(positions)
        assert bits.from_bytes(bits.to_bytes(plane)) == plane
        assert list(bits.indexes(plane)) == sorted(positions)

    def test_an_empty_plane_is_nothing(self) -> None:
        assert bits.to_bytes(0) == b""
        assert bits.from_bytes(None) == 0
        assert bits.ones(3) == 0b111


class TestLosses:
    def test_a_crash_of_a_slice_charges_nobody(self) -> None:
        assert charge(False, (2, 3, 4), CRASHES_MAX - 1).uncharged == (2, 3, 4)

    @given(some.lists(some.integers(0, 500), min_size=1, unique=True), some.integers(0, 10))
    def test_only_the_first_unsettled_item_of_a_lone_claim_is_charged(self, items: list[int], crashes: int) -> None:
        verdict = charge(True, sorted(items), crashes)
        charged = verdict.dead + verdict.charged
        assert charged == (min(items),)
        assert set(verdict.uncharged) == set(items) - {min(items)}
        assert bool(verdict.dead) == (crashes + 1 >= CRASHES_MAX)

    def test_a_claim_that_lost_nothing_charges_nobody(self) -> None:
        verdict = charge(True, (), CRASHES_MAX)
        assert (verdict.dead, verdict.charged, verdict.uncharged) == ((), (), ())
