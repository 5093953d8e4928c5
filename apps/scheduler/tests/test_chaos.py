"""A small run of chaos: every kind of fault once, real servers and processes, and the account adds up."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pages import save
from headrace.tables import CassandraOptions
from headrace.testing.rig.cassandra_cluster import CassandraCluster
from headrace_scheduler.chaos.chaos_page import chaos_page
from headrace_scheduler.chaos.chaos_report import ChaosReport, markdown
from headrace_scheduler.chaos.chaos_run import ChaosOptions, ChaosRun
from headrace_scheduler.chaos.fault_plan import SMALL, FaultKind, plan_faults
from headrace_scheduler.chaos.servers import ChaosServers

TTL_MS = 4_000
# The first seed whose faults meet: while one node is down the link to another is cut, a worker is frozen for more than
# two times its lock, two workers and a reconciler are killed, and clocks are wrong.
SEED, PER_S = 504, 4.0
# A machine that is busy with other tests takes its time, and whatever is lost stays lost for as long.
FINISH_S_MAX = 600.0


@pytest.fixture
def servers(
    cassandra_cluster: CassandraCluster, cluster_options: CassandraOptions, postgres_database: str
) -> ChaosServers:
    nodes, proxies = cassandra_cluster.nodes, cassandra_cluster.proxies
    return ChaosServers.of(nodes, proxies, cluster_options.keyspace, postgres_database)


async def test_no_double_execution_whatever_breaks(servers: ChaosServers, tmp_path: Path) -> None:
    plan = plan_faults(SEED, SMALL.seconds, TTL_MS / 1_000, SMALL)
    environment = {"PATH": os.environ["PATH"]}
    options = ChaosOptions(plan, TTL_MS, 3, PER_S, tmp_path, environment, finish_s_max=FINISH_S_MAX)
    lines: list[str] = []
    report = await ChaosRun(servers, options, lines.append).run()
    assert report.right, "\n".join([report.sentence, *report.wrong[:20], *lines])
    assert report.submitted == report.completed + report.dead_as_planned > 30
    assert report.effects == report.completed
    assert report.orders_sold == report.orders_paid == report.orders_shipped > 0
    assert report.faults == {str(kind): count for kind, count in SMALL.targets.items()}
    _is_told(report, tmp_path)


def test_the_plan_is_not_a_mild_one() -> None:
    """Faults of different lanes happen at once, and none is about to be over when the next begins."""
    faults = {
        fault.kind: fault for lane in plan_faults(SEED, SMALL.seconds, TTL_MS / 1_000, SMALL).lanes for fault in lane
    }
    killed, cut, frozen = (faults[kind] for kind in (FaultKind.NODE_KILL, FaultKind.LINK_CUT, FaultKind.WORKER_FREEZE))
    assert killed.victim % 3 != cut.victim % 3
    assert killed.at_s < frozen.at_s < killed.at_s + killed.lasts_s
    assert killed.at_s < cut.at_s < frozen.at_s + frozen.lasts_s
    assert frozen.lasts_s > 2 * TTL_MS / 1_000
    assert killed.at_s < faults[FaultKind.RECONCILER_KILL].at_s < killed.at_s + killed.lasts_s
    assert abs(faults[FaultKind.CLOCK_JUMP].size) > 2 * TTL_MS / 1_000


def _is_told(report: ChaosReport, folder: Path) -> None:
    text = markdown(report, "headrace scheduler chaos")
    assert text.startswith("# Chaos: no double execution\n")
    assert f"| `worker_kill` | a worker is killed with -9 | {SMALL.targets[FaultKind.WORKER_KILL]} |" in text
    assert f"| jobs accepted | {report.submitted:,} |" in text
    save(chaos_page(report), folder / "page.html")
    assert "No double execution" in (folder / "page.html").read_text()
    void = replace(report, void=("node_pause",))
    assert (void.right, "node_pause happened 0 times" in void.sentence) == (False, True)
    wrong = replace(report, wrong=("double_execution: a job has 2 effects",))
    assert "double_execution" in markdown(wrong, "x").partition("does not add up")[2]
