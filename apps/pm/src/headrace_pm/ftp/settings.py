"""Settings of the side that faces file servers, and of the spool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.services import setting, whole_environment

GIBIBYTE = 1024**3


@dataclass(frozen=True)
class FtpSettings:
    """Read with the prefix `PM_`. Without slots, so that it can be a base beside others."""

    downloads: int = setting(10, "connections for transfers, per server", low=1, high=200)
    ftp_connect_s: float = setting(10.0, "how long a server may take to connect and log in", low=0.1, high=600)
    ftp_answer_s: float = setting(30.0, "how long it may take for an answer", low=0.1, high=600)
    ftp_data_s: float = setting(60.0, "how long a transfer may stand still", low=0.1, high=3600)
    ftp_ca_file: Path | None = setting(None, "whom to trust for FTP inside of TLS", without="the machine's authorities")
    sftp_known_hosts: Path | None = setting(None, "host keys of SFTP servers", without="`~/.ssh/known_hosts`")
    settle_s: float = setting(1.0, "how far apart two equal listings must be", low=0, high=3600)
    spool_dir: Path = setting(Path("pm-spool"), "where fetched files are; each process has its own")
    spool_max_bytes: int = setting(4 * GIBIBYTE, "how much of them at most", low=1)
    move_two_steps: bool = setting(False, "move into ClickHouse/ first and then into Done/, as the old system does")
    environment: Mapping[str, str] = whole_environment()
    """For passwords that are named as `env:NAME`."""
