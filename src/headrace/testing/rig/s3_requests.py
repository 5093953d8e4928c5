"""Signed requests to an S3 server (AWS Signature Version 4), for the few that object clients do not make: buckets.

A signature covers the method, path, query, the moment, the host and the body's hash; its key is derived from the
secret by date, region and service, so that the secret itself never travels.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

ANSWER_S_MAX = 10.0
ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "s3"
SIGNED_HEADERS = "host;x-amz-content-sha256;x-amz-date"


@dataclass(frozen=True, slots=True)
class S3Answer:
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Signer:
    """Keys for one region."""

    access_key: str
    secret_key: str
    region: str

    def headers(self, request: str, host: str, body: bytes, now: datetime) -> dict[str, str]:
        """What must be sent along with a request, `PUT /bucket?versioning=`, whose query is sorted and quoted."""
        method, _, target = request.partition(" ")
        path, _, query = target.partition("?")
        moment, digest = now.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
        covered = f"host:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{moment}\n"
        canonical = "\n".join((method, path, query, covered, SIGNED_HEADERS, digest))
        scope = f"{moment[:8]}/{self.region}/{SERVICE}/aws4_request"
        text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}"
        return {
            "Host": host,
            "X-Amz-Date": moment,
            "X-Amz-Content-Sha256": digest,
            "Authorization": f"{ALGORITHM} {credential}, SignedHeaders={SIGNED_HEADERS}, Signature={signature}",
        }


def send(signer: Signer, method: str, url: str, query: Mapping[str, str] | None = None, body: bytes = b"") -> S3Answer:
    """One signed request; raises OSError if there is no answer. What the answer means is for the caller to say."""
    place = urlsplit(url)
    fields = sorted((query or {}).items())
    target = quote(place.path or "/", safe="/~") + ("?" if fields else "")
    target += "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in fields)
    headers = signer.headers(f"{method} {target}", place.netloc, body, datetime.now(UTC))
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_S_MAX)
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return S3Answer(response.status, response.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"{place.netloc} did not answer in full: {error!r}") from error
    finally:
        connection.close()
