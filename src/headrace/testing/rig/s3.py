"""A real S3 server: versitygw, which keeps every object as a file and what S3 knows of it in extended attributes."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headrace.core.errors import OperatorError
from headrace.testing.rig import s3_requests
from headrace.testing.rig.needs import GoProgram
from headrace.testing.rig.s3_requests import S3Answer, Signer
from headrace.testing.rig.server import Server

PROGRAM = GoProgram("versitygw", "1.8.0")
ACCESS_KEY = "headrace"
SECRET_KEY = "headrace-secret"
REGION = "us-east-1"
SIDECAR = "meta_sidecar"


@dataclass(frozen=True, slots=True)
class Bucket:
    """All that a client needs to use one bucket; `url` is the endpoint with the bucket as its path."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    region: str

    @property
    def url(self) -> str:
        return f"{self.endpoint}/{self.bucket}"


class S3Server(Server):
    """Settings are its environment variables without `VGW_`, in small letters: `{"read_only": "true"}`."""

    name: ClassVar[str] = "s3"
    needs = (PROGRAM,)

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self.access_key, self.secret_key, self.region = ACCESS_KEY, SECRET_KEY, REGION
        self._data, self._versions = self.home / "data", self.home / "versions"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url_of(self, bucket: str) -> str:
        return f"{self.url}/{bucket}"

    def variables(self, url: str) -> dict[str, str]:
        return {
            "S3_URL": url,
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
        }

    def prepare(self) -> None:
        self._data.mkdir()
        self._versions.mkdir()
        if SIDECAR not in self.settings and not has_attributes(self._data):
            sidecar = self.home / "sidecar"
            sidecar.mkdir()
            self.settings[SIDECAR] = str(sidecar)

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        variables = [f"VGW_{name.upper()}={value}" for name, value in settings.items()]
        gateway = [str(PROGRAM.path()), "--port", f"127.0.0.1:{self.port}", "--region", self.region, "--quiet"]
        # Versions need attributes: beside a sidecar, an object that was deleted and put again is not found.
        versions = [] if SIDECAR in settings else ["--versioning-dir", str(self._versions)]
        return ["env", *variables, *gateway, "posix", *versions, str(self._data)]

    def environment(self) -> dict[str, str]:
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        return {**super().environment(), **keys}

    def ask(self) -> None:
        """The list of buckets, by a signed request: that an unsigned one is refused says nothing."""
        answer = self.request("GET", "")
        if answer.status != http.client.OK:
            raise ConnectionError(f"S3 answers {answer.status}: {answer.body[:200]!r}")

    @contextlib.contextmanager
    def bucket(self) -> Iterator[Bucket]:
        """A fresh bucket, gone at the end with all objects, versions and unfinished uploads in it."""
        name = f"test-{secrets.token_hex(8)}"
        answer = self.request("PUT", name)
        if answer.status != http.client.OK:
            raise OperatorError(f"S3 makes no bucket, it answers {answer.status}: {answer.body.decode()}")
        try:
            yield Bucket(self.url, name, self.access_key, self.secret_key, self.region)
        finally:
            # Files are all there is, also while the server is down or frozen.
            for place in (self._data, self._versions, self.settings.get(SIDECAR)):
                if place is not None:
                    shutil.rmtree(Path(place) / name, ignore_errors=True)

    def request(self, method: str, bucket: str, query: Mapping[str, str] | None = None, body: bytes = b"") -> S3Answer:
        """One signed request about a bucket, or about the server if it is empty."""
        signer = Signer(self.access_key, self.secret_key, self.region)
        return s3_requests.send(signer, method, self.url_of(bucket), query, body)


def has_attributes(folder: Path) -> bool:
    """Whether files here can have extended attributes; an old tmpfs has none."""
    try:
        os.setxattr(folder, "user.headrace", b"1")
        os.removexattr(folder, "user.headrace")
    except OSError:
        return False
    return True
