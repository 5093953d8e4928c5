"""Every guard of the account of a file has a twin without it, and a test that notices."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import test_pm_limbo as limbo
import test_pm_moves as moves
import test_pm_register as revisions
import test_pm_resets as resets
from pm_file_world import FileWorld


class Twin(NamedTuple):
    statement: str
    guard: str
    noticed_by: Any
    instead: str = "TRUE"
    values: dict[str, Any] = {}  # noqa: RUF012 - a constant


LIVE = "c.epoch = :epoch"
ENDED = "s.state IN ('COMPLETED', 'MOVED', 'ERROR')"
TWINS = {
    "a late flag": Twin("file_mysql_done", LIVE, moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a late state": Twin("file_parsed", LIVE, moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a late download": Twin("file_downloaded", LIVE, moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a late content": Twin("revision_fetched", LIVE, moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a late spool": Twin("claim_spooled", "EPOCH_OF_OURS", moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a late note": Twin("file_noted", LIVE, moves.test_progress_is_in_the_row_and_ends_with_the_hold),
    "a flag without its checkpoint": Twin("file_mysql_done", LIVE, moves.test_the_last_rows_and_the_flag_are_one),
    "a stamp under a reader": Twin(
        "claims_judge", "OWNER IS NULL OR OWNED <= NOW", revisions.test_a_name_that_was_never_read_has_the_newest_stamp
    ),
    "a revision cut off": Twin(
        "claims_judge", ENDED, revisions.test_what_was_read_is_finished_before_its_name_begins_anew
    ),
    "content that failed taken for written": Twin(
        "claim_spooled", "p.is_whole", revisions.test_the_same_content_as_one_that_failed_is_written
    ),
    "the same content written twice": Twin(
        "claim_spooled", "p.is_whole", revisions.test_the_same_content_again_is_not_written_again, "FALSE"
    ),
    "other content taken for the same": Twin(
        "claim_spooled", "p.content_hash = :digest", revisions.test_other_content_again_is_written
    ),
    "two contents in one revision": Twin(
        "claim_spooled",
        "r.content_hash <> :digest",
        revisions.test_other_content_under_the_same_stamp_is_another_revision,
        "FALSE",
    ),
    "a reset that trusts a checkpoint": Twin(
        "claim_take",
        "left_as <> s.state THEN 1",
        resets.test_a_reset_by_hand_begins_the_missing_sink_anew,
        "left_as <> s.state THEN 0",
        {"retry_count": "retry_count"},
    ),
    "a count set back that is not seen": Twin(
        "claim_take",
        "ELSE attempts <> COALESCE(s.retry_count, 0) END",
        resets.test_a_count_that_is_set_back_is_a_reset,
        "ELSE 0 END",
    ),
    "a reset that is done again and again": Twin(
        "claim_take",
        "left_as = 'PENDING',",
        resets.test_what_a_reset_asks_for_is_done_once,
        "",
    ),
    "flags that outlive a reset": Twin(
        "claim_state",
        "c.restart < 2",
        resets.test_a_file_that_ended_and_is_reset_is_written_to_both_sinks_again,
        "TRUE",
        {"state": "COMPLETED"},
    ),
    "completed without a sink": Twin(
        "file_done",
        "mysql_processed AND clickhouse_processed",
        resets.test_a_flag_that_is_taken_back_under_a_hold_is_redone,
    ),
    "a file of another's disk": Twin(
        "files_due",
        "c.spool IS NULL OR",
        resets.test_a_file_is_left_to_the_process_that_has_it_on_its_disk,
        "TRUE OR",
    ),
    "a redo of what is held": Twin(
        "redo_judge",
        "OWNER IS NULL OR OWNED <= NOW",
        resets.test_what_is_done_again_is_shown_first_and_reset_for_the_sinks_it_is_for,
    ),
    "a redo that a lost worker spoils": Twin(
        "sinks_redo",
        "c.epoch + 1",
        limbo.test_a_worker_that_lost_its_file_moves_no_checkpoint_of_a_redo,
        "c.epoch",
    ),
    "a redo that failed taken for whole": Twin(
        "revisions_redo",
        "is_whole = FALSE",
        limbo.test_the_same_content_is_written_if_it_was_to_be_done_again,
        "is_whole = TRUE",
        {"by": "redo"},
    ),
    "a reset that failed taken for whole": Twin(
        "claim_revision",
        "is_whole = FALSE",
        limbo.test_the_same_content_is_written_if_it_was_to_be_done_again,
        "is_whole = TRUE",
        {"by": "hand"},
    ),
    "a content of a hold that passed": Twin(
        "revision_fetched", "c.until > NOW", limbo.test_a_hold_that_passed_leaves_no_content_behind
    ),
    "a checkpoint of other batches": Twin(
        "sinks_recut", "next_batch = 0", limbo.test_batches_of_another_size_begin_anew, "next_batch = 7"
    ),
    "two movers": Twin(
        "moves_take", "OWNER IS NULL OR OWNED <= NOW", moves.test_of_two_movers_that_saw_the_same_one_has_it
    ),
    "a late mover": Twin("moves_judge", "EPOCH", moves.test_a_mover_that_lost_its_hold_changes_nothing),
    "a reset that a mover forgets": Twin(
        "files_moved", "STATES", moves.test_a_row_that_is_reset_while_it_is_moved_stays_reset
    ),
    "a permanent error that comes back": Twin(
        "recover_errors", "PERMANENT", moves.test_a_file_that_is_nowhere_is_an_error_that_stays
    ),
    "a sweep of an error that is held": Twin(
        "recover_errors", "SWEPT", limbo.test_an_error_under_a_hold_that_passed_is_tried_again
    ),
    "a sweep of an unknown element that is held": Twin(
        "recover_elements", "KNOWN", limbo.test_an_element_that_is_known_now_brings_back_only_what_nobody_holds
    ),
    "a sweep of what is being moved": Twin(
        "recover_incomplete", "KNOWN", limbo.test_a_flag_that_is_taken_back_under_a_mover_waits_for_it
    ),
    "a sweep of flags that are being written": Twin(
        "recover_incomplete", "A_MINUTE", limbo.test_a_flag_that_is_taken_back_after_the_end_is_redone
    ),
    "a spool that keeps what nobody knows": Twin(
        "spool_wanted",
        " JOIN file_processing_state s ON s.id = c.file_id",
        limbo.test_a_spool_keeps_nothing_of_rows_that_were_deleted,
        "",
    ),
    "a sweep of what is held": Twin("recover_downloading", "HELD", moves.test_a_file_of_ours_is_never_swept),
}
SPELLED = {
    "mysql": {
        "EPOCH_OF_OURS": "c.epoch = :epoch",
        "EPOCH": "c.epoch = j.epoch",
        "STATES": "s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')",
        "PERMANENT": "NOT COALESCE(c.is_permanent, FALSE)",
        "HELD": "c.owner IS NULL",
        "SWEPT": "(c.owner IS NULL OR c.until <= NOW)",
        "KNOWN": "(c.owner IS NULL OR c.until <= NOW)",
        "A_MINUTE": "s.updated_at <= UTC_TIMESTAMP() - INTERVAL :pause_s SECOND",
        "OWNER": "c.owner",
        "OWNED": "c.until",
    },
    "sqlite": {
        "EPOCH_OF_OURS": "epoch = :epoch",
        "EPOCH": "epoch = j.value ->> 'epoch'",
        "STATES": "state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')",
        "PERMANENT": "NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = file_processing_state.id\n"
        "                      AND (c.until > NOW OR c.is_permanent OR c.crashes >= :crashes_max))",
        "SWEPT": "NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = file_processing_state.id\n"
        "                      AND (c.until > NOW OR c.is_permanent OR c.crashes >= :crashes_max))",
        "KNOWN": "NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.until > NOW)",
        "A_MINUTE": "unixepoch(updated_at) <= unixepoch('now') - :pause_s",
        "HELD": "NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.owner IS NOT NULL)",
        "OWNER": "owner",
        "OWNED": "until",
    },
}


@pytest.mark.parametrize("bug", TWINS)
async def test_an_account_without_its_guard_is_noticed(file_world: FileWorld, bug: str) -> None:
    twin = TWINS[bug]
    guard = twin.guard
    if file_world.dialect == "sqlite" and twin.statement == "claims_judge":
        guard = guard.replace("OWNER", "pm_file_claim.owner").replace("OWNED", "pm_file_claim.until")
    for word, spelled in SPELLED[file_world.dialect].items():
        guard = guard.replace(word, spelled)
    file_world.break_guard(twin.statement, guard, twin.instead)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await twin.noticed_by(file_world=file_world, **twin.values)
