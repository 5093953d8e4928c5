"""The embedded store and PostgreSQL are one thing: the same tasks come to the same end, row for row."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from silver_pair import Pair, Sent, pair_of
from silver_payloads import every_pair, sent

from headrace_silver.queue.consumer import ConsumeSettings, Mode

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))


def check_same_end(pair: Pair, tasks: list[Sent], consuming: ConsumeSettings, old_bar: bool) -> None:
    pair.empty()
    if old_bar:
        pair.put_old_bar()
    pair.put(tasks)
    for mode in (Mode.ONE, Mode.DRAIN):
        on_postgres, on_sqlite = pair.consume(consuming, mode)
        assert on_sqlite == on_postgres
        assert not on_postgres.failed
        in_postgres, in_sqlite = pair.contents()
        assert in_sqlite == in_postgres
    assert not [task for task in in_postgres["task_q"] if task["status"] == "ready"]


def test_the_same_tasks_come_to_the_same_end_on_both(postgres_database: str, tmp_path: Path) -> None:
    with pair_of(postgres_database, tmp_path / "silver.db") as pair:
        # Not made smaller: every attempt is a passage through two databases.
        @settings(
            max_examples=100 * TIMES,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(sent, min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 4), st.booleans())
        def same(tasks: list[Sent], batch_size: int, threshold: int, old_bar: bool) -> None:
            check_same_end(pair, tasks, ConsumeSettings(batch_size, threshold), old_bar)

        same()


def test_every_value_over_every_other_gives_the_same_row_on_both(postgres_database: str, tmp_path: Path) -> None:
    pairs = list(every_pair())
    tasks = [old for old, _ in pairs] + [new for _, new in pairs]
    with pair_of(postgres_database, tmp_path / "silver.db") as pair:
        # First each in a batch after the other, then both in one.
        for batch_size in (len(pairs), len(tasks)):
            check_same_end(pair, tasks, ConsumeSettings(batch_size), old_bar=False)
