"""Which tasks a batch takes: the urgent, the old, those that nobody else holds, however far ahead they were found."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta

import psycopg
from silver_account import Queue, bar, consume
from silver_counting_proxy import CountingProxy

from headrace_silver.queue.consumer import Mode
from headrace_silver.records.judgement import judge
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.values import Judged, Task
from headrace_silver.stores.postgres.statements import statement
from headrace_silver.stores.postgres.store import PostgresSilverStore


def test_urgent_and_old_tasks_go_first(queue: Queue) -> None:
    late, _ = queue.put("ta.bar", bar()), queue.put("ta.bar", bar(symbol="FPT"), priority=1)
    old = queue.put("ta.bar", bar(symbol="HPG"))
    queue.ask("UPDATE task_q SET first_seen = first_seen - interval '1 day' WHERE id = %s", old)
    left = []
    for _ in range(3):
        consume(queue, batch_size=1)
        left.append(queue.ready())
    assert left == [{late, old}, {late}, set()]


def test_tasks_of_one_moment_go_by_their_id_wherever_they_lie(queue: Queue) -> None:
    with queue.connection.transaction():
        first = queue.put("ta.bar", bar(close=10))
        queue.put("ta.bar", bar(close=11))
    for priority in (1, 100):
        queue.ask("UPDATE task_q SET priority = %s WHERE id = %s", priority, first)
    assert queue.ask("SELECT count(DISTINCT first_seen) FROM task_q") == [(1,)]
    consume(queue)
    assert queue.ask("SELECT close FROM ta_silver") == [(11,)]


def test_a_drain_keeps_the_order_over_many_batches(queue: Queue) -> None:
    tasks = put_shuffled(queue, 400)
    consumed, _ = consume(queue, Mode.DRAIN, batch_size=7)
    assert (consumed.batches, queue.check()) == (58, {"applied": 400})
    assert [row[0] for row in queue.ask("SELECT key FROM applied ORDER BY ctid")] == tasks


def test_a_batch_that_was_rolled_back_comes_first_again(queue: Queue) -> None:
    tasks = put_shuffled(queue, 100)
    proxy = CountingProxy(queue.url, 75)
    consumed, lines = consume(Queue(proxy.url, queue.connection, queue.keys), Mode.DRAIN, batch_size=7)
    proxy.close()
    assert proxy.stopped.is_set()
    assert lines[0].startswith("Lỗi nghiêm trọng, rollback batch: ")
    assert (consumed.failed, queue.check()) == (False, {"applied": 100})
    assert [row[0] for row in queue.ask("SELECT key FROM applied ORDER BY ctid")] == tasks


def test_tasks_found_ahead_are_taken_only_if_they_still_wait(queue: Queue) -> None:
    tasks = [queue.put("ta.bar", bar(trade_date=f"2020-01-{day:02}")) for day in range(1, 21)]
    store = PostgresSilverStore(queue.url + "%20-clock_timeout%3D2000")
    assert store.lock()

    def take() -> list[int]:
        with store.batch(2) as batch:
            held = [task.id for task in batch.tasks]
            free = queue.ask("SELECT id FROM task_q ORDER BY id FOR UPDATE SKIP LOCKED")
            assert not {row[0] for row in free} & set(held)
            batch.settle(by_the_rules(batch.tasks, batch.now), None)
        return held

    # The second batch is the first of those that were found out together.
    assert take() + take() == tasks[:4]
    queue.ask("UPDATE task_q SET status = 'held' WHERE id = %s", tasks[4])
    assert take() + take() == tasks[5:9]
    with psycopg.connect(queue.url) as other:
        other.execute("SELECT FROM task_q WHERE id = %s FOR UPDATE", (tasks[9],))
        assert take() == tasks[10:12]
    queue.ask("DELETE FROM task_q WHERE id = %s", tasks[12])
    assert take() == [tasks[9], tasks[13]]
    store.close()
    assert queue.ready() == set(tasks[14:])


def test_a_task_that_was_corrected_after_it_was_read_ahead_counts_as_it_is_now(queue: Queue) -> None:
    tasks = [queue.put("ta.bar", bar(trade_date=f"2020-01-{day:02}")) for day in range(1, 11)]
    store = PostgresSilverStore(queue.url)
    assert store.lock()
    judged = []
    for _ in range(5):
        with store.batch(2) as batch:
            judged.append(batch.judged is not None)
            batch.settle(batch.judged or by_the_rules(batch.tasks, batch.now), None, by_the_rules)
        if len(judged) == 3:
            queue.ask("UPDATE task_q SET payload = payload || '{\"close\": 10}' WHERE id = %s", tasks[7])
    store.close()
    assert judged == [False, False, True, False, False]
    assert queue.ask("SELECT extract(day FROM trade_date)::int FROM ta_silver WHERE close = 10") == [(8,)]
    assert queue.check() == {"applied": 10}


def by_the_rules(tasks: Sequence[Task], now: datetime) -> Judged:
    return judge(tasks, now, RuleSettings())


def test_a_finished_task_was_held_and_deleted_by_one_transaction(queue: Queue) -> None:
    """By two, of which one is a savepoint's, no search could pass it over as dead before a vacuum."""
    queue.put("ta.bar", bar())
    with psycopg.connect(queue.url) as earlier:
        earlier.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert earlier.execute("SELECT count(*) FROM task_q").fetchall() == [(1,)]
        consume(queue)
        deleted_by = earlier.execute("SELECT xmax FROM task_q").fetchall()
    assert deleted_by == queue.ask("SELECT xmin FROM control_flags")


def put_shuffled(queue: Queue, count: int) -> list[str]:
    """Tasks of many priorities, put in any order; their keys in the order in which they should go."""
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    with queue.connection.transaction():
        for number in numbers:
            day = date(2000, 1, 1) + timedelta(days=number)
            queue.put("ta.bar", bar(trade_date=day.isoformat()), priority=number)
    return [f"VNM {date(2000, 1, 1) + timedelta(days=number)}" for number in range(count)]


def test_a_time_beyond_python_does_not_stop_the_queue(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    queue.put("ta.bar", bar(symbol="FPT"))
    queue.ask("UPDATE task_q SET first_seen = CASE id WHEN 1 THEN 'infinity' ELSE '-infinity' END::timestamptz")
    consume(queue)
    assert queue.check() == {"applied": 2}


def test_what_another_holds_is_left_to_it(queue: Queue) -> None:
    held, free = queue.put("ta.bar", bar()), queue.put("ta.bar", bar(symbol="FPT"))
    with queue.connection.transaction():
        queue.ask("SELECT FROM task_q WHERE id = %s FOR UPDATE", held)
        consumed, lines = consume(queue, Mode.DRAIN)
    assert (consumed.bars, lines) == (1, ["Không có task nào, worker kết thúc."])
    assert queue.ready() == {held}
    assert free not in queue.ready()


def test_the_queue_is_read_by_its_index_and_counted_from_its_far_end(queue: Queue) -> None:
    queue.ask("INSERT INTO task_q (task_type, payload) SELECT 'x', '{}' FROM generate_series(1, 3000)")
    values = {"size": 500, "ids": list(range(1, 501)), "writers": [1], "name": "SCRAPE_SLOW", "threshold": 10_000}
    with queue.connection.transaction():
        queue.connection.execute(statement("consume_begin"))
        found = [
            queue.connection.execute(f"EXPLAIN {statement(name)}", values)
            for name in ("consume_fetch", "consume_coming", "consume_known", "consume_flag")
        ]
        fetch, coming, known, flag = ["".join(row[0] for row in plan) for plan in found]
    assert "Index Scan using idx_task_q_status" in fetch
    assert "Index Scan using task_q_pkey" in coming
    assert "Index Scan using task_q_pkey" in known
    assert re.search("Index (Only )?Scan Backward using idx_task_q_status", flag)
