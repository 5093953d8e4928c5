"""What the environment says, by the names of the specification. Read once, at the edge.

Everything means Cassandra unless `SCHEDULER_HOME` names a directory: then the same tables and locks are in a SQLite
file there, and nothing has to be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from headrace import RetryPolicy
from headrace.errors import CallerError
from headrace.services import HttpSettings, setting, whole_environment
from headrace_scheduler.tenants.tenant_limits import TenantRules

PREFIX = "WORKER_"
PREFIXES = (PREFIX, "LOCK_", "CASSANDRA_", "CASS_", "ORDERS_", "SCHEDULER_")
"""Of all settings of the scheduler and of orders."""
HTTP_PORTS = {"all": 8080, "api": 8080, "worker": 8081, "reconciler": 8082}
BUCKETS_MAX = 4_096
DATABASE_FILE = "scheduler.db"
# A lease shorter than this would be lost to a pause of the garbage collector.
LOCK_TTL_MS_MIN = 1_000


@dataclass(frozen=True, slots=True)
class SchedulerSettings(HttpSettings):
    """The settings of all services. `environment` is for what a handler's child process is started with."""

    http_port: int | None = setting(
        None,
        "the port to listen on, 0: any that is free",
        low=0,
        high=65_535,
        without="8080; 8081 for `worker`, 8082 for `reconciler`",
    )
    api_keys: str = setting(
        "",
        "further keys as NAME:SCOPE:KEY or NAME@TENANT:SCOPE:KEY, separated by commas; "
        "the scope is metrics, read or write",
        secret=True,
        without="none",
    )
    rate_per_s: float = setting(
        0.0, "most requests a second of each API key, in each process; 0: no limit", low=0.0, high=1_000_000.0
    )
    tenant_limits: str = setting(
        "",
        "limits as TENANT:open=N:in_progress=N:schedules=N:rate=N, separated by commas; the tenant * is every other",
        without="none",
    )
    poll_interval_ms: int = setting(500, "an idle worker looks so often for jobs that are due", low=10, high=60_000)
    buckets: int = setting(
        16,
        "partitions that jobs are spread over; recorded when the tables are made, and the same for all",
        low=1,
        high=BUCKETS_MAX,
    )
    max_in_progress: int = setting(16, "most jobs that one worker holds at a time", low=1, high=10_000)
    max_attempts: int = setting(5, "how often a job is run before it goes to the dead-letter table", low=1, high=1_000)
    backoff_base_ms: int = setting(500, "the pause before the first retry; it doubles with each", low=1)
    backoff_max_ms: int = setting(60_000, "the longest pause before a retry", low=1)
    keep_days: float = setting(
        30.0, "days that jobs are kept after they have ended, with their runs and results; 0: for ever", low=0.0
    )
    keep_dead_days: float = setting(30.0, "the same for jobs in the dead-letter table; 0: for ever", low=0.0)
    keep_audit_days: float = setting(30.0, "days that `audit_events` are kept; 0: for ever", low=0.0)
    http_allow: tuple[str, ...] = setting(
        (),
        "prefixes of the URLs that jobs of the type `http` may call, separated by commas: scheme, host, and whole"
        " components of the path",
        without="none: nothing is allowed",
    )
    command_allow: tuple[str, ...] = setting(
        (),
        "prefixes of the command lines that jobs of the type `command` may run, separated by commas: whole words, and"
        " of a path in the last one whole components",
        without="none: nothing is allowed",
    )
    lock_ttl_ms: int = setting(
        30_000,
        "how long a lock is held without a renewal; it is renewed at a third",
        low=LOCK_TTL_MS_MIN,
        high=3_600_000,
        variable="LOCK_TTL_MS",
    )
    lock_seq_block_size: int = setting(
        100, "fencing tokens that a process reserves at a time", low=1, high=100_000, variable="LOCK_SEQ_BLOCK_SIZE"
    )
    contact_point: str = setting(
        "127.0.0.1", "a node of Cassandra, or several separated by commas", variable="CASSANDRA_CONTACT_POINT"
    )
    cassandra_port: int = setting(
        9042, "the port of its native protocol", low=1, high=65_535, variable="CASSANDRA_PORT"
    )
    keyspace: str = setting("job_scheduler", "the keyspace with the tables", variable="CASSANDRA_KEYSPACE")
    local_dc: str = setting("datacenter1", "the data centre that is asked first", variable="CASS_LOCAL_DC")
    cassandra_options: str = setting(
        "",
        "consistencies, as in `serial=SERIAL&write.queue=QUORUM`",
        without="`LOCAL_SERIAL` and `LOCAL_QUORUM`",
        variable="CASSANDRA_OPTIONS",
    )
    home: Path | None = setting(
        None,
        "a directory: tables and locks are in a SQLite file there, and no Cassandra is needed",
        without="Cassandra",
        variable="SCHEDULER_HOME",
    )
    environment: Mapping[str, str] = whole_environment()

    def __post_init__(self) -> None:
        if self.backoff_max_ms < self.backoff_base_ms:
            raise CallerError(
                f"WORKER_BACKOFF_MAX_MS = {self.backoff_max_ms} is below WORKER_BACKOFF_BASE_MS = "
                f"{self.backoff_base_ms}",
                "the longest pause is at least the first",
            )
        TenantRules.of(self.tenant_limits)

    @property
    def tenants(self) -> TenantRules:
        return TenantRules.of(self.tenant_limits)

    @property
    def lock_ttl_s(self) -> float:
        return self.lock_ttl_ms / 1_000

    @property
    def poll_interval_s(self) -> float:
        return self.poll_interval_ms / 1_000

    @property
    def retries(self) -> RetryPolicy:
        """Pauses double from twice the base up to the most; the jitter shortens each by so much that none falls below
        the base."""
        base_s, most_s = self.backoff_base_ms / 1_000, self.backoff_max_ms / 1_000
        first_s = min(2 * base_s, most_s)
        return RetryPolicy(self.max_attempts, first_s, cap_s=most_s, jitter=1 - base_s / first_s)

    @property
    def cassandra_url(self) -> str:
        """In the form that `headrace.leases` takes."""
        hosts = ",".join(host.strip() for host in self.contact_point.split(","))
        query = urlencode({"local_dc": self.local_dc, "block_size": self.lock_seq_block_size})
        query += f"&{self.cassandra_options}" if self.cassandra_options else ""
        return f"cassandra://{hosts}:{self.cassandra_port}/{quote(self.keyspace)}?{query}"

    @property
    def engine_url(self) -> str:
        """The embedded store."""
        assert self.home is not None
        return f"sqlite:///{self.home / DATABASE_FILE}"
