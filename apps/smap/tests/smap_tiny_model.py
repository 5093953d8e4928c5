"""A text classifier of four words, as a real ONNX file: each word has three numbers, and a text is their sum.

Written with the wire format alone (field number, kind, value), so that no further library is needed to make one.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

WORDS = {"[PAD]": (0, 0, 0), "[UNK]": (0, 1, 0), "đẹp": (-2, 0, 4), "tệ": (4, 0, -2), "xe": (0, 1, 0)}
"""Negative, neutral, positive."""
_FLOAT, _INT64 = 1, 7


def written(directory: Path, labels: tuple[str, ...] = ("NEG", "Neutral", "positive")) -> Path:
    """The three files of a model, and the path of the first."""
    (directory / "model.onnx").write_bytes(_model())
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (directory / "config.json").write_text(json.dumps({"id2label": dict(enumerate(labels))}), "utf-8")
    return directory / "model.onnx"


def _model() -> bytes:
    table = b"".join(struct.pack("<3f", *numbers) for numbers in WORDS.values())
    graph = _bytes(1, _node("Gather", ("table", "input_ids"), "looked_up"))
    graph += _bytes(1, _node("ReduceSum", ("looked_up", "axis"), "logits", _attribute("keepdims", 0)))
    graph += _bytes(2, b"tiny")
    graph += _bytes(5, _tensor("table", (len(WORDS), 3), _FLOAT, table))
    graph += _bytes(5, _tensor("axis", (1,), _INT64, struct.pack("<q", 1)))
    graph += _bytes(11, _value("input_ids", _INT64, ("batch", "length")))
    graph += _bytes(12, _value("logits", _FLOAT, ("batch", 3)))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, 13))


def _node(kind: str, inputs: tuple[str, ...], output: str, attribute: bytes = b"") -> bytes:
    named = b"".join(_bytes(1, name.encode()) for name in inputs)
    return named + _bytes(2, output.encode()) + _bytes(4, kind.encode()) + attribute


def _attribute(name: str, value: int) -> bytes:
    return _bytes(5, _bytes(1, name.encode()) + _number(3, value) + _number(20, 2))


def _tensor(name: str, sizes: tuple[int, ...], kind: int, raw: bytes) -> bytes:
    return b"".join(_number(1, size) for size in sizes) + _number(2, kind) + _bytes(8, name.encode()) + _bytes(9, raw)


def _value(name: str, kind: int, sizes: tuple[str | int, ...]) -> bytes:
    shape = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size.encode())) for size in sizes
    )
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes((low | 128,)) + _varint(rest) if rest else bytes((low,))
