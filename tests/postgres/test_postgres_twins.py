"""Every guard of the account is needed: without it, a test of the contract turns red."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from headrace.adapters.postgres.store import PostgresStore
from headrace.testing.contracts import Bench, OperationsContract, StoreContract
from headrace.testing.passage import RealPassage
from headrace.testing.twins import turns_red


@dataclass(frozen=True, slots=True)
class Twin:
    """A function of the account in which some pieces of text are others."""

    function: str
    changes: Mapping[str, str]
    noticed_by: Callable[..., Awaitable[None]]


TWINS = {
    "no fence check": Twin(
        "settle",
        {"headrace.refusal(held, steps[n])": "CASE WHEN held.step = steps[n] THEN '' END"},
        StoreContract.test_a_late_holder_is_refused,
    ),
    "a settlement counted twice": Twin(
        "settle",
        {
            "headrace.refusal(held, steps[n])": "CASE WHEN held.fence IS NULL THEN 'lost' END",
            " & headrace.unsettled(held)": "",
        },
        StoreContract.test_the_same_settlement_twice_in_one_call_counts_once,
    ),
    "finish before seal": Twin(
        "can_close",
        {"stage.feeders_open > 0": "false"},
        StoreContract.test_a_fast_consumer_cannot_finish_before_a_slow_producer,
    ),
    "close with something open": Twin(
        "can_close", {"RETURN NOT EXISTS (": "RETURN true OR EXISTS ("}, StoreContract.test_a_diamond_closes_once
    ),
    "a crash charges the whole slice": Twin(
        "lose",
        {
            "jsonb_build_array(loss || jsonb_build_object(": "(SELECT jsonb_agg(loss || jsonb_build_object(",
            "'index', kept[1]": "'index', at",
            "state.attempt)))": "state.attempt)) FROM unnest(kept) at))",
            "kept[1:1]": "kept",
            "kept := kept[2:]": "kept := '{}'",
        },
        StoreContract.test_only_the_item_that_was_alone_each_time_dies,
    ),
    "a crash charges a slice that did not run alone": Twin(
        "lose", {"claim.alone AND": "true AND"}, StoreContract.test_a_crash_of_a_whole_slice_charges_nobody
    ),
    "lost claims revived without a settlement": Twin(
        "renew", {"c.until >= moment": "true"}, StoreContract.test_an_expired_claim_is_not_revived
    ),
    "sends that forget the gate": Twin(
        "insert_sent",
        {"place.kind := 0;": "place.kind := 0; place.gate := 0;"},
        OperationsContract.test_what_a_cancelled_job_sends_is_cancelled,
    ),
    "retries that forget the gate": Twin(
        "end_cancelled",
        {"state.gate = 2": "false"},
        OperationsContract.test_held_items_that_would_wait_again_are_cancelled,
    ),
    "a rotation that forgets its place": Twin(
        "pick", {"coalesce(turn ->> 'tenant', '')": "''"}, StoreContract.test_claims_rotate_over_tenants
    ),
    "a job judged by its newest generation": Twin(
        "overall",
        {
            "(s.job = ": "NOT EXISTS (SELECT FROM headrace.stage n WHERE n.job = s.job"
            " AND n.generation > s.generation) AND (s.job = "
        },
        OperationsContract.test_a_partial_redrive_leaves_a_failed_job_failed,
    ),
    "a redriven item that counts twice": Twin(
        "overall",
        {"(sum(s.dead) - sum(s.redriven))": "sum(s.dead)"},
        OperationsContract.test_a_job_leaves_failed_when_nothing_of_it_is_dead_any_more,
    ),
    "a stop that nobody makes": Twin(
        "advance",
        {"counted.dead > 0 AND headrace.stops(stage)": "false"},
        OperationsContract.test_a_cancelled_item_that_ends_its_chunk_lets_the_job_stop,
    ),
    "a job that stopped and waits for somebody": Twin(
        "opens",
        {" AND ((stage).kind = 1)": ""},
        OperationsContract.test_nobody_is_waited_for_in_a_job_that_stopped,
    ),
    "a share that nobody keeps to": Twin(
        "claim", {"workers > 1": "false"}, StoreContract.test_slices_leave_something_for_every_live_worker
    ),
}


@pytest.fixture
async def bench(store: PostgresStore) -> Bench:
    return Bench(store, RealPassage())


@pytest.mark.parametrize("name", TWINS)
async def test_a_missing_guard_is_noticed(postgres_url: str, bench: Bench, name: str) -> None:
    twin = TWINS[name]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        _replace(connection, twin)
    await turns_red(twin.noticed_by, bench=bench)


def _replace(connection: psycopg.Connection[Any], twin: Twin) -> None:
    found = connection.execute("SELECT pg_get_functiondef(%s::regproc)", (f"headrace.{twin.function}",)).fetchone()
    assert found is not None
    text = str(found[0])
    for guard, without in twin.changes.items():
        assert guard in text, f"{twin.function} has no {guard!r}"
        text = text.replace(guard, without)
    connection.execute(text.encode())
