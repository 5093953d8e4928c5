"""Guards of the ledger's scripts, first part: what all begin with, opening, expecting, sealing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from smap_ledger_redis_contract import FINISH
from smap_ledger_strangers import WholeLedgerContract

C = WholeLedgerContract


@dataclass(frozen=True)
class Twin:
    """A guard exchanged in the scripts that have it (or in one of them), and the sentence that must go red."""

    guard: str
    instead: str
    noticed_by: Any
    only: str = ""
    given: dict[str, Any] = field(default_factory=dict)


TWINS = {
    # what all scripts begin with
    "a stump is taken for a project": Twin(
        "local present = not not fields[1]",
        "local present = redis.call('EXISTS', hash) == 1",
        C.test_a_count_without_a_status_is_no_project,
    ),
    "what is missing is not told": Twin(
        "fields[1] and fields[2] and fields[3] and fields[4]",
        "true",
        C.test_a_field_that_is_missing_is_nothing,
        given={"missing": "errors"},
    ),
    "somebody else's word ends our crawl": Twin(
        "RANKS.PROCESSING_WAIT and crawl_mark ~= OPEN",
        "RANKS.PROCESSING_WAIT",
        C.test_our_own_crawl_is_over_when_we_say_so,
        given={"written": "PROCESSING"},
    ),
    "nobody remembers our crawl": Twin(
        "kinds[crawl] == 'string' and redis.call('GET', crawl) or ''",
        "''",
        C.test_our_own_crawl_is_over_when_we_say_so,
        given={"written": "PROCESSING"},
    ),
    "a key of another kind is found too late": Twin(
        "found ~= kind and found ~= 'none'",
        "false",
        C.test_a_key_of_another_kind_is_refused_before_anything_is_written,
        given={"key": FINISH},
    ),
    "a number that HINCRBY refuses is added to": Twin(
        "not string.find(text, '^[1-9]')",
        "false",
        C.test_text_in_place_of_a_number_breaks_nothing,
        given={"text": "007"},
    ),
    "a number beyond all counts is added to": Twin(
        "#text <= 15 and", "", C.test_text_in_place_of_a_number_breaks_nothing, given={"text": "9" * 30}
    ),
    "less than nothing is a total": Twin(
        "string.find(text, '^%d+$')",
        "true",
        C.test_a_total_that_cannot_be_read_is_never_reached,
        given={"text": "-3"},
    ),
    "a total that cannot be read counts as reached": Twin(
        "and total and (done or 0) >= total",
        "and (done or 0) >= (total or 0)",
        C.test_a_total_that_cannot_be_read_is_never_reached,
        given={"text": "many"},
    ),
    "a sealed project counts beyond its total": Twin(
        "if is_sealed() then\n    local room",
        "if false then\n    local room",
        C.test_a_sealed_project_counts_no_more_than_its_total,
    ),
    "what is counted already takes room": Twin(
        "in_items[position] + in_failed[position] > 0",
        "in_failed[position] > 0",
        C.test_repeats_take_no_room_from_new_items,
    ),
    "a failed item finds no room to be lifted": Twin(
        "in_items[position] + in_failed[position] > 0",
        "in_items[position] > 0",
        C.test_an_item_that_went_well_at_last_is_no_error_any_more,
    ),
    "an item told twice takes room twice": Twin(
        "elseif taken[digest] == nil then", "else", C.test_repeats_take_no_room_from_new_items
    ),
    "a lifted error stays one": Twin(
        "if failures > 0 then lifted =",
        "if failures < 0 then lifted =",
        C.test_an_item_that_went_well_at_last_is_no_error_any_more,
    ),
    "a failure takes a success back": Twin(
        "if redis.call('SISMEMBER', items, digest) == 0 then",
        "if true then",
        C.test_a_failure_never_takes_a_success_back,
    ),
    "a lifted item is counted again": Twin(
        "new = new - lifted", "new = new", C.test_an_item_that_went_well_at_last_is_no_error_any_more
    ),
    "a failure told again counts again": Twin(
        "fresh_failures + redis.call('SADD', failed, digest)",
        "fresh_failures + 1 redis.call('SADD', failed, digest)",
        C.test_a_failed_item_is_an_error_and_done,
    ),
    "the line is crossed while crawling": Twin(
        "if is_sealed() and status ~= 'DONE' and total",
        "if status ~= 'INITIALIZING' and status ~= 'DONE' and total",
        C.test_nothing_finishes_before_the_seal,
        given={"found": 1},
    ),
    "the line is crossed before anything began": Twin(
        "if is_sealed() and status ~= 'DONE' and total",
        "if status ~= 'CRAWLING' and status ~= 'DONE' and total",
        C.test_nothing_finishes_before_the_seal,
        given={"found": None},
    ),
    "the line is crossed again": Twin(
        "if is_sealed() and status ~= 'DONE' and total",
        "if is_sealed() and total",
        C.test_what_is_done_expires_a_week_after_that,
    ),
    "the line is crossed by PROCESSING_WAIT alone": Twin(
        "if is_sealed() and status ~= 'DONE' and total",
        "if status == 'PROCESSING_WAIT' and total",
        C.test_the_last_item_crosses_the_line,
    ),
    "the line is crossed short of the total": Twin(
        "(done or 0) >= total", "(done or 0) + 1 >= total", C.test_the_last_item_crosses_the_line
    ),
    "the line is crossed beyond the total only": Twin(
        "(done or 0) >= total", "(done or 0) > total", C.test_the_last_item_crosses_the_line
    ),
    "more than the total does not reach it": Twin(
        "(done or 0) >= total", "(done or 0) == total", C.test_increments_beyond_the_total_reach_it
    ),
    "a finish is announced twice": Twin(
        "redis.call('SET', finish, token, 'NX')",
        "redis.call('SET', finish, token)",
        C.test_a_project_finishes_once_even_if_somebody_begins_again,
    ),
    "nobody knows who crossed": Twin(
        "redis.call('SET', finish, token, 'NX')",
        "redis.call('SET', finish, 'somebody', 'NX')",
        C.test_the_last_item_crosses_the_line,
    ),
    "the week does not begin with the end": Twin(
        "    for key in pairs(KINDS) do redis.call('EXPIRE', key, EXPIRE_S) end\n  end\nend\n\n-- Kept",
        "  end\nend\n\n-- Kept",
        C.test_what_is_done_expires_a_week_after_that,
    ),
    "what is done never expires": Twin(
        "if status ~= 'DONE' then\n    for", "if true then\n    for", C.test_what_is_done_expires_a_week_after_that
    ),
    "what is unfinished expires": Twin(
        "    for key in pairs(KINDS) do redis.call('EXPIRE', key, EXPIRE_S) end\n    return",
        "    return",
        C.test_everything_expires_a_week_after_the_last_call,
    ),
    "a finished hash without an expiry stays for ever": Twin(
        "if redis.call('TTL', hash) < 0 then",
        "if false then",
        C.test_what_is_added_after_the_end_expires_with_the_rest,
    ),
    "what is added after the end stays for ever": Twin(
        "if redis.call('PTTL', key) == -1 then",
        "if false then",
        C.test_what_is_added_after_the_end_expires_with_the_rest,
    ),
    # open
    "a project is opened over another": Twin("if present then return 0 end", "", C.test_a_project_opens_once, "open"),
    "an opened project forgets what is counted": Twin(
        "counted + (done or 0)",
        "(done or 0)",
        C.test_items_are_remembered_when_the_hash_alone_is_lost,
        "open",
    ),
    "an opened project forgets what failed": Twin(
        "failures + (errors or 0)",
        "(errors or 0)",
        C.test_items_are_remembered_when_the_hash_alone_is_lost,
        "open",
    ),
    "an opened project forgets what others counted": Twin(
        "counted + (done or 0)", "counted", C.test_what_others_counted_before_a_project_opens_is_kept, "open"
    ),
    "an opened project forgets what others failed": Twin(
        "failures + (errors or 0)", "failures", C.test_what_others_counted_before_a_project_opens_is_kept, "open"
    ),
    "an opened project forgets what others expect": Twin(
        "'total', total or 0", "'total', 0", C.test_what_others_counted_before_a_project_opens_is_kept, "open"
    ),
    # expect
    "a find makes a hash": Twin(
        "if not present then return nil end",
        "",
        C.test_a_project_that_is_not_there_is_none_and_stays_so,
        "expect",
    ),
    "a find overwrites somebody else's status": Twin(
        "if rank > 0 and", "if", C.test_a_status_of_somebody_else_is_left_alone, "expect"
    ),
    "a find opens what was done before": Twin(
        "(crawl_mark == '' and status ~= 'DONE')",
        "crawl_mark == ''",
        C.test_what_is_done_by_others_keeps_its_total,
        "expect",
    ),
    "a find moves the total of what is done": Twin(
        "is_sealed() and status ~= 'DONE' and found",
        "is_sealed() and found",
        C.test_what_is_done_keeps_its_total,
        "expect",
    ),
    "the crawl is no open item": Twin(
        "set_total(found + 1)", "set_total(found)", C.test_while_crawling_the_total_is_one_ahead, "expect"
    ),
    "a sealed total is one ahead again": Twin(
        "set_total(found)", "set_total(found + 1)", C.test_a_sealed_total_may_rise_and_never_falls, "expect"
    ),
    "a late page lowers the total": Twin(
        "if found + 1 > (total or 0) then", "if true then", C.test_a_page_told_again_or_late_changes_nothing, "expect"
    ),
    "a late page lowers a sealed total": Twin(
        "and found > (total or 0) then", "then", C.test_a_sealed_total_may_rise_and_never_falls, "expect"
    ),
    "a late page opens the crawl again": Twin(
        "crawl_mark == OPEN or (crawl_mark == '' and", "(true and", C.test_it_is_known_how_far_our_crawl_is, "expect"
    ),
    "a foreign word before our crawl is believed": Twin(
        "if status ~= 'CRAWLING' then",
        "if rank < RANKS.CRAWLING then",
        C.test_a_crawl_that_begins_after_a_foreign_word_is_ours_as_well,
        "expect",
    ),
    "a find does not say that it is our crawl": Twin(
        "mark_crawl(OPEN)", "", C.test_it_is_known_how_far_our_crawl_is, "expect"
    ),
    # seal
    "a seal makes a hash": Twin(
        "if not present then return nil end", "", C.test_a_project_that_is_not_there_is_none_and_stays_so, "seal"
    ),
    "a seal overwrites somebody else's status": Twin(
        "if rank > 0 and (not", "if (not", C.test_a_status_of_somebody_else_is_left_alone, "seal"
    ),
    "a second seal lowers the total": Twin(
        "given and given > (total or 0)", "given", C.test_a_sealed_total_may_rise_and_never_falls, "seal"
    ),
    "a second seal begins again": Twin(
        "if rank > 0 and (not is_sealed() or too_early) then",
        "if rank > 0 then",
        C.test_a_sealed_total_may_rise_and_never_falls,
        "seal",
    ),
    "a seal moves the total of what is done": Twin(
        "is_sealed() and status ~= 'DONE' and given",
        "is_sealed() and given",
        C.test_what_is_done_keeps_its_total,
        "seal",
    ),
    "a seal is below what is counted": Twin(
        "math.max(given or total or 0, counted)",
        "given or total or 0",
        C.test_a_seal_is_never_below_what_is_counted,
        "seal",
    ),
    "a seal leaves the crawl in the total": Twin(
        "math.max(given or total or 0, counted)",
        "math.max(given or 0, total or 0, counted)",
        C.test_the_seal_closes_the_open_item,
        "seal",
    ),
    "an end that was written too early stays": Twin(
        "or too_early then set_status",
        "then set_status",
        C.test_our_own_crawl_is_over_when_we_say_so,
        "seal",
        {"written": "DONE"},
    ),
    "an end is taken for too early": Twin(
        "crawl_mark == OPEN and (done or 0) <", "(done or 0) <", C.test_what_is_done_keeps_its_total, "seal"
    ),
    "a seal does not end our crawl": Twin("mark_crawl(SEALED)", "", C.test_it_is_known_how_far_our_crawl_is, "seal"),
    "a seal does not look at the line": Twin(
        "cross(token)\nrenew", "renew", C.test_the_seal_crosses_the_line_when_everything_has_ended, "seal"
    ),
}
