"""When a job shall run, as clients write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from headrace.errors import InvalidPayload
from headrace_scheduler.jobs.buckets import bucket_of
from headrace_scheduler.jobs.schedule_words import scheduled_time

NOW = datetime(2026, 1, 31, 9, 0, 0, 123_456, tzinfo=UTC)
PINNED = [14, 2, 15, 6, 9, 15, 7, 15]
NOW_MS = NOW.replace(microsecond=123_000)


@pytest.mark.parametrize(
    ("word", "moment"),
    [
        ("now", NOW_MS),
        ("+PT30S", NOW_MS + timedelta(seconds=30)),
        ("+p1dt1h", NOW_MS + timedelta(days=1, hours=1)),
        ("2026-01-31T09:00:00Z", datetime(2026, 1, 31, 9, tzinfo=UTC)),
        ("2026-01-31T16:00:00.5+07:00", datetime(2026, 1, 31, 9, 0, 0, 500_000, tzinfo=UTC)),
        ("1999-01-01T00:00:00Z", datetime(1999, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_word_means_a_moment_in_whole_milliseconds(word: str, moment: datetime) -> None:
    assert scheduled_time(word, NOW) == moment


@pytest.mark.parametrize(
    "word",
    [
        *("", "later", "tomorrow", "+30", "+PT0S", "-PT30S", "2026-01-31", "2026-01-31T09:00:00"),
        *("1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_any_other_word_is_refused_with_what_can_be_written(word: str) -> None:
    with pytest.raises(InvalidPayload, match="schedule") as refused:
        scheduled_time(word, NOW)
    assert "+PT30S" in refused.value.hint


def test_the_bucket_of_a_job_is_the_same_for_ever() -> None:
    """Pinned: another hash would spread new jobs differently from those of programs that share it."""
    ids = [UUID(int=number) for number in range(8)]
    assert [bucket_of(job_id, 16) for job_id in ids] == PINNED


def test_jobs_spread_evenly() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[bucket_of(UUID(int=number), 16)] += 1
    assert 800 < min(counts) <= max(counts) < 1_200
