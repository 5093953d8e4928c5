"""A real Prometheus that scrapes what a test tells it to, once a second.

It looks for new targets every five seconds only, whatever the interval: the first sample comes some 5.4 s after a
target was named.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from headrace.core.errors import CallerError, OperatorError
from headrace.testing.rig.needs import DebianPackage
from headrace.testing.rig.server import Server

PROGRAM = DebianPackage("prometheus", "2.42", "prometheus")
ANSWER_S_MAX = 20.0
SAMPLE_S_MAX = 60.0
JOB = "headrace"

Sample = tuple[dict[str, str], float]


class PrometheusServer(Server):
    """Settings are its flags without the dashes: `{"query.timeout": "10s"}`."""

    name: ClassVar[str] = "prometheus"
    needs = (PROGRAM,)
    user = "nobody"

    def __init__(
        self, settings: Mapping[str, str] | None = None, targets: Sequence[str] = (), rules: Sequence[str] = ()
    ) -> None:
        """`rules` are the contents of files of rules."""
        super().__init__(settings)
        self._jobs, self._rules = {JOB: list(targets)}, list(rules)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._write_jobs()

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        flags = {
            "log.level": "info",
            **settings,
            "config.file": str(self.home / "prometheus.yml"),
            "storage.tsdb.path": str(self.home / "tsdb"),
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        return [str(PROGRAM.path()), "--web.enable-lifecycle", *(f"--{name}={value}" for name, value in flags.items())]

    def ask(self) -> None:
        """A query: it answers once the samples kept on disk are loaded."""
        self.query("vector(1)")

    def scrape(self, targets: Sequence[str], job: str = JOB) -> None:
        """From now on a job scrapes these targets, `["127.0.0.1:9000"]`, and no others."""
        self._jobs[job] = list(targets)
        self._write_jobs()
        if self.running:
            status, answer = self._request("POST", "/-/reload")
            if status != http.client.OK:
                raise OperatorError(f"Prometheus refuses its targets: {answer.decode(errors='replace')}")

    def query(self, promql: str) -> list[Sample]:
        """What an expression is now: the labels and value of each of its series."""
        status, answer = self._request("GET", f"/api/v1/query?{urlencode({'query': promql})}")
        if status == http.client.BAD_REQUEST:
            raise CallerError(f"Prometheus refuses {promql!r}: {json.loads(answer)['error']}")
        if status != http.client.OK:
            raise ConnectionError(f"Prometheus answers {status}: {answer[:200].decode(errors='replace')}")
        return _samples(json.loads(answer)["data"])

    def rules(self) -> list[dict[str, Any]]:
        """Its rules as it says them: `name`, `type`, `query`, `health`, and `state` of an alert."""
        _, answer = self._request("GET", "/api/v1/rules")
        return [rule for group in json.loads(answer)["data"]["groups"] for rule in group["rules"]]

    def wait_for(self, promql: str, timeout_s: float = SAMPLE_S_MAX) -> list[Sample]:
        """The first answer of an expression that has any series."""
        deadline = time.monotonic() + timeout_s
        while not (found := self.query(promql)):
            if time.monotonic() > deadline:
                raise OperatorError(f"Prometheus has nothing for {promql!r} after {timeout_s:g} s", "is it scraped?")
            time.sleep(0.1)
        return found

    def _write_jobs(self) -> None:
        named = {f"rules-{number}.yml": text for number, text in enumerate(self._rules)}
        for name, text in named.items():
            self.write(name, text)
        jobs = [{"job_name": job, "static_configs": [{"targets": found}]} for job, found in self._jobs.items()]
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        # JSON is YAML too.
        whole = {"global": every, "scrape_configs": jobs, "rule_files": list(named)}
        self.write("prometheus.yml", json.dumps(whole))

    def _request(self, method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"Prometheus did not answer in full: {error!r}") from error
        finally:
            connection.close()


def _samples(data: Any) -> list[Sample]:
    match data:
        case {"resultType": "vector", "result": series}:
            return [(each["metric"], float(each["value"][1])) for each in series]
        case {"resultType": "scalar", "result": [_, value]}:
            return [({}, float(value))]
    raise CallerError(f"the expression is a {data['resultType']}", "ask for its value at one moment")
