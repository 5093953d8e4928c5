"""Serving beside other work: any port, signals left alone, an end in time."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import httpx
import pytest
from http_sample import KEY, Sample

from headrace.core.errors import OperatorError
from headrace.http import serving
from headrace.http.server import KEEP_ALIVE_S


async def test_port_0_is_a_free_one_and_told(sample: Sample) -> None:
    async with serving(sample.app()) as served, httpx.AsyncClient() as client:
        assert served.url == f"http://127.0.0.1:{served.port}"
        assert (await client.get(f"{served.url}/healthz")).json() == {"status": "alive", "service": "sample"}


async def test_the_other_loopback_is_served_too(sample: Sample) -> None:
    async with serving(sample.app(host="::1")) as served, httpx.AsyncClient() as client:
        assert served.url.startswith("http://[::1]:")
        assert (await client.get(f"{served.url}/things")).status_code == 200


async def test_with_a_key_others_are_served(sample: Sample) -> None:
    async with serving(sample.app(host="0.0.0.0", api_keys={"acme": KEY})) as served, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{served.port}/things"
        assert (await client.get(url, headers={"Host": "smap.example"})).status_code == 401
        headers = {"Host": "smap.example", "Authorization": f"Bearer {KEY}"}
        assert (await client.get(url, headers=headers)).status_code == 200


async def test_a_port_that_is_taken_is_told_in_words(sample: Sample) -> None:
    async with serving(sample.app()) as served:
        with pytest.raises(OperatorError, match=f"port {served.port}") as refused:
            async with serving(sample.app(port=served.port)):
                pass
    assert "another port" in refused.value.hint


def test_a_resting_connection_is_closed_by_the_client_first() -> None:
    # With equal times both close at once, and a request that is on its way then is never answered.
    expiry_s = httpx.Limits().keepalive_expiry
    assert expiry_s is not None
    assert expiry_s < KEEP_ALIVE_S


async def test_signals_stay_with_the_program(sample: Sample) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serving(sample.app()):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_an_answer_in_hand_may_finish_and_one_that_does_not_come_is_cut(sample: Sample) -> None:
    sample.gate.clear()
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient() as client:
        async with serving(sample.app()) as served:
            making = asyncio.ensure_future(client.post(f"{served.url}/things", json={"name": "a"}))
            stuck = asyncio.ensure_future(client.get(f"{served.url}/nothing-waits"))
            await sample.entered.wait()
            await stuck
            loop.call_later(0.2, sample.gate.set)
        assert (await making).status_code == 201
        sample.gate.clear()
        sample.entered.clear()
        async with serving(sample.app()) as served:
            making = asyncio.ensure_future(client.post(f"{served.url}/things", json={"name": "a"}))
            await sample.entered.wait()
            began = loop.time()
        assert loop.time() - began < 3
        with pytest.raises(httpx.HTTPError):
            (await making).raise_for_status()


def test_importing_the_kit_costs_nothing_before_it_is_used() -> None:
    code = "import sys, headrace.http; print(sorted({'fastapi', 'uvicorn', 'prometheus_client'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
