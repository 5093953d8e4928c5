"""A foreign lock client, written from the pseudocode of the specification alone (§4.2.1, §4.3.1), on the driver.

It draws a token before it writes, confirms nothing, compares the epoch alone and starts it at 0. It imports nothing of
headrace.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy
from cassandra.query import ConsistencyLevel

ANSWER_S_MAX = 60.0
INSERT = "INSERT INTO locks (resource_id, holder, fencing_token, expire_at, epoch) VALUES (?, ?, ?, ?, 0) IF NOT EXISTS"
SELECT = "SELECT holder, fencing_token, expire_at, epoch FROM locks WHERE resource_id = ?"
TAKEOVER = "UPDATE locks SET holder = ?, fencing_token = ?, expire_at = ?, epoch = ? WHERE resource_id = ? IF epoch = ?"
RENEW = "UPDATE locks SET expire_at = ? WHERE resource_id = ? IF holder = ? AND fencing_token = ? AND expire_at = ?"
RELEASE = "DELETE FROM locks WHERE resource_id = ? IF holder = ? AND fencing_token = ?"
FIRST_BLOCK = "INSERT INTO lock_seq (resource, last_seq) VALUES (?, ?) IF NOT EXISTS"
LAST_SEQ = "SELECT last_seq FROM lock_seq WHERE resource = ?"
NEXT_BLOCK = "UPDATE lock_seq SET last_seq = ? WHERE resource = ? IF last_seq = ?"


@dataclass
class ForeignLockClient:
    """Blocking, as the pseudocode is."""

    url: str
    block_size: int = 100
    blocks: dict[str, list[int]] = field(default_factory=dict)

    def __enter__(self) -> ForeignLockClient:
        place = urlsplit(self.url)
        profile = ExecutionProfile(
            load_balancing_policy=DCAwareRoundRobinPolicy(parse_qs(place.query)["local_dc"][0]),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
            request_timeout=ANSWER_S_MAX,
        )
        profiles = {EXEC_PROFILE_DEFAULT: profile}
        patience = {"connect_timeout": ANSWER_S_MAX, "control_connection_timeout": ANSWER_S_MAX}
        self.cluster = Cluster([str(place.hostname)], port=place.port, execution_profiles=profiles, **patience)
        self.session = self.cluster.connect(place.path.lstrip("/"))
        self.prepared: dict[str, Any] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.shutdown()

    def run(self, text: str, *values: object) -> Any:
        if text not in self.prepared:
            self.prepared[text] = self.session.prepare(text)
        return self.session.execute(self.prepared[text], values)

    def next_seq(self, resource: str) -> int:
        block = self.blocks.setdefault(resource, [])
        if block:
            return block.pop(0)
        if self.run(FIRST_BLOCK, resource, self.block_size).was_applied:
            block.extend(range(2, self.block_size + 1))
            return 1
        while True:
            old = self.run(LAST_SEQ, resource).one().last_seq
            if self.run(NEXT_BLOCK, old + self.block_size, resource, old).was_applied:
                block.extend(range(old + 2, old + self.block_size + 1))
                return int(old) + 1

    def acquire(self, resource: str, holder: str, ttl_s: float, timeout_s: float) -> int | None:
        """The token, or None."""
        deadline, backoff_s = time.monotonic() + timeout_s, 0.05
        while True:
            token, expire_at = self.next_seq(resource), datetime.now(UTC) + timedelta(seconds=ttl_s)
            if self.run(INSERT, resource, holder, token, expire_at).was_applied:
                return token
            found = self.run(SELECT, resource).one()
            if found is not None and found.expire_at.replace(tzinfo=UTC) <= datetime.now(UTC):
                epoch = found.epoch
                if self.run(TAKEOVER, holder, token, expire_at, epoch + 1, resource, epoch).was_applied:
                    return token
            if time.monotonic() >= deadline:
                return None
            threading.Event().wait(backoff_s + random.random() * backoff_s)
            backoff_s = min(2.0, backoff_s * 2)

    def renew(self, resource: str, holder: str, token: int, ttl_s: float) -> bool:
        found = self.run(SELECT, resource).one()
        if found is None or (found.holder, found.fencing_token) != (holder, token):
            return False
        if found.expire_at.replace(tzinfo=UTC) <= datetime.now(UTC):
            return False
        end = datetime.now(UTC) + timedelta(seconds=ttl_s)
        return bool(self.run(RENEW, end, resource, holder, token, found.expire_at).was_applied)

    def release(self, resource: str, holder: str, token: int) -> bool:
        return bool(self.run(RELEASE, resource, holder, token).was_applied)
