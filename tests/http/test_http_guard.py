"""Who may come in, and what a browser may do with the answer."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from http_sample import KEY, Sample

from headrace.core.errors import CallerError
from headrace.http import Options
from headrace.http.options import is_loopback

OTHER = "o" * 32


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.4", "example.com", "127.0.0.1.example.com"])
def test_nothing_is_served_to_a_network_without_a_key(host: str) -> None:
    with pytest.raises(CallerError, match="without an API key"):
        Options("sample", host=host)
    assert Options("sample", host=host, api_keys={"acme": KEY}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    assert Options("sample", host=host).local


@pytest.mark.parametrize("key", ["", "short", "k" * 31, "k" * 31 + "\n", "k" * 31 + "é"])
def test_a_key_that_can_be_guessed_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(CallerError, match="32 or more") as refused:
        Options("sample", api_keys={"acme": key})
    assert not key or key not in str(refused.value)


def test_a_key_is_not_shown_with_the_options() -> None:
    assert KEY not in repr(Options("sample", api_keys={"acme": KEY}))


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}, {"X-API-Key": KEY}, basic(KEY)],
)
async def test_the_key_opens_every_route(headers: dict[str, str], sample: Sample) -> None:
    async with sample.client(api_keys={"globex": OTHER, "acme": KEY}) as client:
        for path in ("/things", "/readyz", "/metrics", "/api/v1/things", "/api/v1/openapi.json", "/"):
            assert (await client.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer " + "x" * 32},
        {"Authorization": "Bearer"},
        {"Authorization": f"Digest {KEY}"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic " + base64.b64encode(b"\xff\xff").decode()},
        basic(""),
        {"X-API-Key": KEY[:-1]},
        {"X-API-Key": KEY + "k"},
    ],
)
async def test_without_the_key_only_signs_of_life_are_seen(headers: dict[str, str], sample: Sample) -> None:
    async with sample.client(api_keys={"acme": KEY}) as client:
        for path in ("/things", "/metrics", "/api/v1/readyz", "/api/v1/openapi.json", "/", "/nothing", "/stream"):
            answer = await client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
            assert "Bearer" in answer.headers["www-authenticate"]
        assert (await client.get("/healthz", headers=headers)).status_code == 200
        assert (await client.post("/readyz", headers={**headers, "Idempotency-Key": "1"})).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "0.0.0.0"])
async def test_a_page_that_leads_its_own_name_here_gets_nothing(host: str, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.get("/things", headers={"Host": host})
    assert (answer.status_code, answer.json()["type"]) == (421, "urn:headrace:problem:unknown-host")


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost", "LOCALHOST:1", "[::1]:8081", "smap.local"])
async def test_names_of_this_machine_are_known(host: str, sample: Sample) -> None:
    async with sample.client(hosts=("smap.local",)) as client:
        assert (await client.get("/things", headers={"Host": host})).status_code == 200


async def test_an_application_that_others_opened_to_a_network_stays_shut(sample: Sample) -> None:
    async with sample.client(base_url="http://192.168.1.4") as client:
        answer = await client.get("/things", headers={"Host": "localhost"})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:headrace:problem:no-key")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Origin": "http://127.0.0.1"}, 201),
        ({"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
async def test_another_site_may_not_change_anything(headers: dict[str, str], status: int, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", json={"name": "a"}, headers=headers)
    assert (answer.status_code, sample.calls) == (status, 1 if status == 201 else 0)


async def test_every_answer_says_what_it_is_not_good_for(sample: Sample) -> None:
    async with sample.client() as client:
        for path in ("/things", "/nothing", "/healthz", "/metrics"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]


async def test_a_page_may_run_its_own_blocks_and_nothing_else(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.get("/")
        assert (await client.get("/api/v1/")).status_code == 404
    policy = answer.headers["content-security-policy"]
    for text in (b"p{color:red}", b"let a = 1"):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" in policy
    assert len(re.findall("sha256-", policy)) == 2
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
