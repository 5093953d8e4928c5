"""A service without routes of its own is observed like any other, and costs less."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
from http_sample import KEY
from starlette.applications import Starlette

from headrace.http import Options, application

LEAN = "import sys; from headrace.http import Options, application; application(Options('lean'), [])"


async def fine() -> None: ...


def client_of(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/metrics", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/api/v1/openapi.json", 200),
        ("POST", "/metrics", 405),
        ("GET", "/healthz/", 404),
        ("GET", "/elsewhere", 404),
    ],
)
async def test_it_answers_operators_and_nobody_else(method: str, path: str, status: int) -> None:
    async with client_of(application(Options("lean", checks={"part": fine}), [])) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    if status >= 400 and method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"


async def test_it_asks_for_the_key_and_says_what_it_is() -> None:
    async with client_of(application(Options("lean", "2.1", api_keys={"acme": KEY}), [])) as client:
        assert (await client.get("/metrics")).status_code == 401
        asked = {"Authorization": f"Bearer {KEY}"}
        document = (await client.get("/api/v1/openapi.json", headers=asked)).json()
        metrics = (await client.get("/metrics", headers=asked)).text
    assert (document["openapi"], document["info"]["title"], document["paths"]) == ("3.1.0", "lean", {})
    assert 'headrace_http_requests_total{method="GET",route="/metrics",service="lean",status="401"} 1.0' in metrics


@pytest.mark.parametrize(("routers", "loaded"), [("[]", False), ("[__import__('fastapi').APIRouter()]", True)])
def test_what_describes_routes_is_loaded_for_those_who_have_some(routers: str, loaded: bool) -> None:
    script = f"{LEAN.replace('[]', routers)}; print('fastapi' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said == f"{loaded}\n"
