"""A model in place of the sentiment rules: any text classifier in the usual layout of an ONNX export.

`SMAP_SENTIMENT_MODEL` names the `.onnx` file; `tokenizer.json` and `config.json` (with `id2label`) lie beside it.
Labels are known by their first letters (negative, neutral, positive), so the order is the model's own. The score is
how much more likely positive is than negative. One post is one run: its text and the clauses around its aspects.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, MissingExtra
from headrace_smap.analytics.modules.drafts import NEGATIVE, NEUTRAL, POSITIVE, AspectSentiment, Draft

TOKENS_MAX = 256
TEXTS_MAX = 16
"""So many texts of one post are judged: itself, and the clauses around its first aspects."""
_SHORT = {"pos": POSITIVE, "neu": NEUTRAL, "neg": NEGATIVE}
_LAYOUT = "model.onnx with tokenizer.json and config.json beside it"


class ModelSentiment:
    """Sentiment by a classifier."""

    name = "sentiment"
    needs = ("prepare",)

    def __init__(self, path: Path) -> None:
        runtime, tokenizers = _library("onnxruntime"), _library("tokenizers")
        parts = {name: _bytes(path.parent / name) for name in (path.name, "tokenizer.json", "config.json")}
        self.version = "onnx-" + hashlib.blake2b(b"\0".join(parts.values()), digest_size=6).hexdigest()
        self._labels = _labels(parts["config.json"])
        self._tokenizer = _tokenizer(tokenizers, parts["tokenizer.json"])
        self._session = _session(runtime, parts[path.name])
        self._inputs = {told.name for told in self._session.get_inputs()}

    def apply(self, draft: Draft) -> None:
        """Fill `sentiment`, `sentiment_score` and `aspect_sentiments`."""
        clauses: dict[str, list[str]] = {}
        for aspect, number, index in draft.aspect_places:
            sentence = draft.sentences[number]
            start, end, _ = next(clause for clause in sentence.clauses if index < clause[1])
            clauses.setdefault(aspect, []).append(" ".join(sentence.words[start:end]))
        texts = [draft.text, *(" ".join(dict.fromkeys(said)) for said in clauses.values())][:TEXTS_MAX]
        whole, *others = self._judged(texts)
        draft.sentiment, draft.sentiment_score = whole["label"], whole["score"]
        silent = repeat(AspectSentiment(label=NEUTRAL, score=0.0))
        draft.aspect_sentiments = dict(zip(clauses, chain(others, silent), strict=False))

    def _judged(self, texts: Sequence[str]) -> list[AspectSentiment]:
        import numpy

        encoded = self._tokenizer.encode_batch(list(texts))
        told = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        feed = {name: numpy.array(told[name], dtype=numpy.int64) for name in self._inputs & told.keys()}
        logits = self._session.run(None, feed)[0].astype(float)
        powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return [self._said(row) for row in (powers / powers.sum(axis=1, keepdims=True)).tolist()]

    def _said(self, likely: Sequence[float]) -> AspectSentiment:
        by_label = dict.fromkeys((NEGATIVE, NEUTRAL, POSITIVE), 0.0)
        for label, share in zip(self._labels, likely, strict=True):
            by_label[label] += share
        best = max(by_label, key=lambda label: by_label[label])
        return AspectSentiment(label=best, score=round(by_label[POSITIVE] - by_label[NEGATIVE], 4))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"SMAP_SENTIMENT_MODEL needs {name}", "pip install 'headrace-smap[model]'") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CallerError(f"SMAP_SENTIMENT_MODEL: {path} cannot be read: {error.strerror}", _LAYOUT) from error


def _labels(config: bytes) -> list[str]:
    try:
        named: Mapping[str, str] = json.loads(config)["id2label"]
        return [_SHORT[named[str(number)].lower()[:3]] for number in range(len(named))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = '"id2label": {"0": "negative", "1": "neutral", "2": "positive"}'
        raise CallerError("SMAP_SENTIMENT_MODEL: config.json does not name the labels", hint) from error


def _tokenizer(tokenizers: Any, described: bytes) -> Any:
    try:
        made = tokenizers.Tokenizer.from_str(described.decode("utf-8"))
    except Exception as error:
        # The library raises plain exceptions for everything it cannot read.
        raise CallerError(f"SMAP_SENTIMENT_MODEL: tokenizer.json cannot be used: {error}", _LAYOUT) from error
    made.enable_truncation(TOKENS_MAX)
    made.enable_padding()
    return made


def _session(runtime: Any, model: bytes) -> Any:
    options = runtime.SessionOptions()
    # Processes are the unit of parallel work here; a session with threads of its own would fight with the others.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CallerError(f"SMAP_SENTIMENT_MODEL: the model cannot be used: {error}", _LAYOUT) from error
