"""A model as a file: a line that says what it is, a line of JSON that says what it knows, and numbers.

Only buckets that were learned are kept. No pickle, nothing that runs. A digest over everything tells a damaged file,
and is the version of the model: the same labels give the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from headrace.errors import CallerError, OperatorError
from headrace_smap.analytics.modules.linear.classifier import LinearModel
from headrace_smap.analytics.modules.linear.ngrams import FEATURES, Hashing

FORMAT = 1
MAGIC = b"headrace smap model\n"
BYTES_MAX = 256 * 1024 * 1024
LABELS_MAX = 100
BITS_MAX = 24
_AGAIN = "headrace smap train writes it anew from the labels"


def write(path: Path, model: LinearModel) -> LinearModel:
    """The model with its digest. The file is there whole or not at all."""
    buckets = numpy.flatnonzero(model.weights.any(axis=0))
    told = {
        "format": FORMAT,
        "features": FEATURES,
        "module": model.module,
        "labels": list(model.labels),
        "hashing": asdict(model.hashing),
        "trained_on": model.trained_on,
        "buckets": len(buckets),
    }
    body = b"".join(
        part.tobytes()
        for part in (buckets.astype("<u4"), model.bias.astype("<f4"), model.weights[:, buckets].astype("<f4"))
    )
    digest = _digest(told, body)
    content = MAGIC + _line({**told, "digest": digest}) + body
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise OperatorError(f"{path} cannot be written: {error.strerror}", "name another file by --to") from None
    return replace(model, digest=digest)


def read(path: Path) -> LinearModel:
    """The model in a file; raises `CallerError` for anything but a whole model of this version."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise CallerError(f"{path} has more than {BYTES_MAX:,} bytes, so it is no model", _AGAIN)
        content = path.read_bytes()
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}", _AGAIN) from error
    if not content.startswith(MAGIC):
        raise CallerError(f"{path} is no model of smap", _AGAIN)
    line, _, body = content[len(MAGIC) :].partition(b"\n")
    try:
        told = json.loads(line)
        digest = told.pop("digest")
        versions = told["format"], told["features"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if versions != (FORMAT, FEATURES):
        found, known = (".".join(map(str, each)) for each in (versions, (FORMAT, FEATURES)))
        raise CallerError(f"{path} is a model of version {found}; this headrace reads {known}", _AGAIN)
    if digest != _digest(told, body):
        raise _damaged(path)
    try:
        return replace(_model(told, body), digest=digest)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _damaged(path) from error


def _model(told: Mapping[str, Any], body: bytes) -> LinearModel:
    labels, buckets, hashing = tuple(map(str, told["labels"])), int(told["buckets"]), Hashing(**told["hashing"])
    if not 0 < len(labels) <= LABELS_MAX or not 1 <= hashing.bits <= BITS_MAX:
        raise ValueError(labels)
    if len(body) != 4 * (buckets + len(labels) + len(labels) * buckets):
        raise ValueError(len(body))
    places = numpy.frombuffer(body, "<u4", buckets)
    bias = numpy.frombuffer(body, "<f4", len(labels), 4 * buckets)
    learned = numpy.frombuffer(body, "<f4", offset=4 * (buckets + len(labels))).reshape(len(labels), buckets)
    weights: NDArray[numpy.float32] = numpy.zeros((len(labels), 1 << hashing.bits), dtype=numpy.float32)
    weights[:, places] = learned
    trained_on = {str(label): int(count) for label, count in told["trained_on"].items()}
    return LinearModel(str(told["module"]), labels, hashing, weights, bias.astype(numpy.float32), trained_on)


def _damaged(path: Path) -> CallerError:
    return CallerError(f"{path} is damaged: it is not as it was written", _AGAIN)


def _line(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _digest(told: Mapping[str, Any], body: bytes) -> str:
    return hashlib.blake2b(_line(told) + body, digest_size=8).hexdigest()
