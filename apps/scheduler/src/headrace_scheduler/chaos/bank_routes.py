"""The bank over HTTP, as jobs of the type `http` call it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field

from headrace.errors import ClaimLost
from headrace.http import Problem
from headrace_scheduler.chaos.bank import Bank
from headrace_scheduler.handlers.running_job import RunningJob

PATH = "/effects"
SECONDS_MAX, FAILS_MAX = 60.0, 100


class PaymentQuery(BaseModel):
    """How long the bank takes, and how many of the first runs fail."""

    seconds: Annotated[float, Field(ge=0, le=SECONDS_MAX)] = 0.0
    fails: Annotated[int, Field(ge=0, le=FAILS_MAX)] = 0


def bank_routes(bank: Bank) -> APIRouter:
    router = APIRouter()

    # Not POST: what is called again with the same key must reach the bank again.
    @router.put(PATH)
    async def pay(
        request: Request,
        token: Annotated[int, Header(alias="Fencing-Token")],
        resource: Annotated[str, Header(alias="Fencing-Resource")],
        job_id: Annotated[str, Header(alias="Idempotency-Key")],
        wish: Annotated[PaymentQuery, Query()],
    ) -> dict[str, Any]:
        job = RunningJob(job_id, {}, resource, token, 1, _unreported)
        try:
            # Shielded: also a request that takes too long is carried on.
            paid = await asyncio.shield(bank.start(job, wish.seconds, wish.fails, partial(_is_gone, request)))
        except ClaimLost as error:
            raise Problem(409, "fenced", str(error)) from None
        if not paid:
            raise Problem(422, "planned", "this run was to fail")
        return {"paid": True}

    return router


async def _is_gone(request: Request) -> bool:
    # That the caller has hung up comes behind the body.
    await request.body()
    return await request.is_disconnected()


async def _unreported(progress: Mapping[str, object]) -> None:
    """Nobody asks the bank how far it is."""
