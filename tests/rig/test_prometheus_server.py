"""Prometheus: it scrapes what it is told to, and answers questions about it."""

from __future__ import annotations

import json
from itertools import count
from urllib.request import urlopen

import pytest

from headrace.core.errors import CallerError, OperatorError
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest
from headrace.testing.rig.prometheus import PrometheusServer

SAMPLE_S_MAX = 60.0


def scraped() -> HttpReceiver:
    """A program that counts how often it was scraped."""
    numbers = count(1)

    def answer(_: HttpRequest) -> HttpAnswer:
        text = f'scrapes_total{{stage="read"}} {next(numbers)}\n'
        return HttpAnswer(200, text.encode(), {"Content-Type": "text/plain; version=0.0.4"})

    return HttpReceiver(answer)


def test_targets_are_scraped_and_asked_about_before_and_after_a_kill() -> None:
    with scraped() as first, scraped() as second, PrometheusServer(targets=[first.address]) as server:
        # Both at once: each waits some five seconds for its first sample.
        server.scrape([second.address], job="later")
        [(labels, value)] = server.wait_for('scrapes_total{job="headrace"}', SAMPLE_S_MAX)
        assert (labels["stage"], labels["instance"]) == ("read", first.address)
        assert value >= 1
        assert server.wait_for('scrapes_total{job="later"}', SAMPLE_S_MAX)[0][0]["instance"] == second.address
        assert server.wait_for("sum(up) == 2", SAMPLE_S_MAX) == [({}, 2.0)]

        server.kill()
        server.start()
        assert server.query("max_over_time(scrapes_total[10m])"), "what was scraped before the kill is still there"

        server.scrape([])
        with urlopen(f"{server.url}/api/v1/status/config", timeout=60) as answer:
            in_force = json.load(answer)["data"]["yaml"]
        assert second.address in in_force
        assert first.address not in in_force


def test_a_question_is_answered_or_refused_with_words() -> None:
    with PrometheusServer() as server:
        assert server.query("scalar(vector(3)) * 2") == [({}, 6.0)]
        assert server.query('label_replace(vector(2), "stage", "read", "", "")') == [({"stage": "read"}, 2.0)]
        assert server.query("nothing_of_this_name") == []
        with pytest.raises(CallerError, match="parse error"):
            server.query("sum(")
        with pytest.raises(CallerError, match="matrix"):
            server.query("up[1m]")
        with pytest.raises(OperatorError, match="nothing for 'absent_metric'"):
            server.wait_for("absent_metric", timeout_s=0.0)
        with pytest.raises(OperatorError, match="refuses its targets"):
            server.scrape(["http://not a target/"])
