"""Guards of the ledger's scripts, second part: settling, restoring, looking."""

from __future__ import annotations

from smap_ledger_strangers import WholeLedgerContract
from smap_ledger_twins_before import Twin

C = WholeLedgerContract
TWINS = {
    # settle
    "a settlement makes a hash": Twin(
        "if not present then return nil end",
        "",
        C.test_a_project_that_is_not_there_is_none_and_stays_so,
        "settle",
    ),
    "done is overwritten": Twin(
        "done = redis.call('HINCRBY', hash, 'done', new)",
        "done = counted redis.call('HSET', hash, 'done', counted)",
        C.test_a_foreign_worker_counts_beside_ours,
        "settle",
    ),
    "done grows by what is told": Twin("'done', new)", "'done', #well + #badly)", C.test_an_item_counts_once, "settle"),
    "text is added to": Twin(
        "if done and new > 0", "if new > 0", C.test_text_in_place_of_a_number_breaks_nothing, "settle", {"text": "many"}
    ),
    "errors that are text are added to": Twin(
        "if errors and more_errors",
        "if more_errors",
        C.test_text_in_place_of_a_number_breaks_nothing,
        "settle",
        {"text": "many"},
    ),
    "fewer than none failed": Twin(
        "math.max(more_errors, -(errors or 0))",
        "more_errors",
        C.test_items_are_remembered_when_somebody_begins_again,
        "settle",
    ),
    "the seal is overtaken by PROCESSING": Twin(
        "if status == 'PROCESSING_WAIT' and is_sealed() and",
        "if status ~= 'DONE' and",
        C.test_the_last_item_crosses_the_line,
        "settle",
    ),
    "work in a foreign word begins before our seal": Twin(
        "if status == 'PROCESSING_WAIT' and is_sealed() and",
        "if status == 'PROCESSING_WAIT' and",
        C.test_our_own_crawl_is_over_when_we_say_so,
        "settle",
        {"written": "PROCESSING_WAIT"},
    ),
    "a look at the line is taken for work": Twin(
        "#well + #badly > 0 then set_status", "true then set_status", C.test_no_ends_only_look_at_the_line, "settle"
    ),
    "a settlement does not look at the line": Twin(
        "cross(token)\nrenew", "renew", C.test_the_last_item_crosses_the_line, "settle"
    ),
    # restore
    "the status of an absent project is not written": Twin(
        "if not present then rank = 0 end", "", C.test_a_restored_hash_is_whole, "restore"
    ),
    "the total of an absent project is not written": Twin(
        "elseif not fields[2] or (", "elseif (", C.test_a_restored_hash_is_whole, "restore"
    ),
    "a total after the end stays": Twin(
        "if word == 'DONE' or", "if", C.test_a_total_that_was_changed_after_the_end_is_put_back, "restore"
    ),
    "a restored seal leaves the crawl in the total": Twin(
        "or (known_sealed and not was_sealed)", "", C.test_restoring_lifts_status_and_total, "restore"
    ),
    "an old truth opens the total again": Twin(
        "known_sealed == is_sealed() and",
        "",
        C.test_restoring_from_a_truth_that_is_behind_changes_nothing,
        "restore",
    ),
    "an old truth lowers the total": Twin(
        "and known_total > (total or 0)) then\n  set_total(math.max(known_total, total or 0))",
        ") then\n  set_total(known_total)",
        C.test_restoring_from_a_truth_that_is_behind_changes_nothing,
        "restore",
    ),
    "an old truth ends our crawl": Twin(
        "if crawl_mark == OPEN and RANKS[word] > RANKS.CRAWLING then",
        "if false then",
        C.test_what_is_restored_during_our_crawl_does_not_end_it,
        "restore",
    ),
    "an old truth opens our crawl again": Twin(
        "(known_crawl == OPEN and crawl_mark == '')",
        "known_crawl == OPEN",
        C.test_how_far_our_crawl_was_is_restored,
        "restore",
    ),
    "our crawl is not restored": Twin(
        "(known_crawl == OPEN and crawl_mark == '')", "false", C.test_how_far_our_crawl_was_is_restored, "restore"
    ),
    "the end of our crawl is not restored": Twin(
        "if known_crawl == SEALED or (", "if (", C.test_how_far_our_crawl_was_is_restored, "restore"
    ),
    "an end before a restored seal stays": Twin(
        "if status == 'DONE' and word ~= 'DONE' and",
        "if false and",
        C.test_a_seal_that_is_restored_says_that_there_is_more,
        "restore",
    ),
    "an end that is one is taken back": Twin(
        "and done < known_total then",
        "then",
        C.test_a_seal_that_is_restored_says_that_there_is_more,
        "restore",
    ),
    "what others counted since a loss is forgotten": Twin(
        "foreign_done = foreign_done + (done or 0)",
        "foreign_done = math.max(foreign_done, done or 0)",
        C.test_what_others_counted_since_a_loss_is_added_to_what_they_had_counted,
        "restore",
    ),
    "what others failed since a loss is forgotten": Twin(
        "foreign_errors = foreign_errors + (errors or 0)",
        "foreign_errors = math.max(foreign_errors, errors or 0)",
        C.test_what_others_counted_since_a_loss_is_added_to_what_they_had_counted,
        "restore",
    ),
    "what is restored is not whole": Twin(
        "whole_hash = true",
        "",
        C.test_a_field_that_is_missing_is_nothing,
        "restore",
        {"missing": "errors"},
    ),
    "an old truth takes the status back": Twin(
        "if RANKS[word] > rank then",
        "if true then",
        C.test_restoring_from_a_truth_that_is_behind_changes_nothing,
        "restore",
    ),
    "whose finish it was is forgotten": Twin(
        "if ours then", "if false then", C.test_a_restored_finish_is_not_crossed_again, "restore"
    ),
    "foreign increments are forgotten": Twin(
        "math.max(foreign_done, (done or 0) - counted)",
        "(done or 0) - counted",
        C.test_what_foreign_workers_counted_is_restored_with_the_rest,
        "restore",
    ),
    "foreign increments are taken back": Twin(
        "math.max(foreign_done, (done or 0) - counted)",
        "foreign_done",
        C.test_what_foreign_workers_counted_is_restored_with_the_rest,
        "restore",
    ),
    "foreign errors are forgotten": Twin(
        "math.max(foreign_errors, (errors or 0) - failures)",
        "(errors or 0) - failures",
        C.test_what_foreign_workers_counted_is_restored_with_the_rest,
        "restore",
    ),
    "foreign errors are taken back": Twin(
        "math.max(foreign_errors, (errors or 0) - failures)",
        "foreign_errors",
        C.test_what_foreign_workers_counted_is_restored_with_the_rest,
        "restore",
    ),
    "items that were removed are somebody else's": Twin(
        "elseif not items_lost then",
        "else",
        C.test_items_that_were_removed_are_not_taken_for_foreign_ones,
        "restore",
    ),
    "counts are lowered while items come back": Twin(
        "if items_lost then",
        "if false then",
        C.test_items_that_were_removed_are_not_taken_for_foreign_ones,
        "restore",
    ),
    "what is restored after its end has another week": Twin(
        "if status == 'DONE' and left_s > 0 and",
        "if false and",
        C.test_what_is_restored_after_its_end_expires_when_it_would_have,
        "restore",
    ),
    "what is restored never expires": Twin("renew()\nreturn", "return", C.test_a_restored_hash_is_whole, "restore"),
    # tally
    "a look finds what is not there": Twin(
        "  return nil\nend\nif left_s",
        "end\nif left_s",
        C.test_a_project_that_is_not_there_is_none_and_stays_so,
        "tally",
    ),
    "a stump stays for ever": Twin(
        "if left_s == -1 then", "if false then", C.test_a_count_without_a_status_is_no_project, "tally"
    ),
    "a look lets it expire": Twin(
        "then renew() end", "then end", C.test_everything_expires_a_week_after_the_last_call, "tally"
    ),
    "every look is a write": Twin(
        "EXPIRE_S - RENEWED_EVERY_S", "EXPIRE_S", C.test_looking_writes_an_expiry_once_an_hour_only, "tally"
    ),
    "a finished hash without an expiry is not noticed": Twin(
        "left_s < 0 or", "", C.test_what_is_added_after_the_end_expires_with_the_rest, "tally"
    ),
}
