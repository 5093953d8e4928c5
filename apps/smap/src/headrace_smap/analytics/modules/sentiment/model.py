"""A model in place of the sentiment rules: any text classifier in the usual layout of an ONNX export.

`SMAP_SENTIMENT_MODEL` names the `.onnx` file; `tokenizer.json` and `config.json` (with `id2label`) lie beside it.
Labels are known by their first letters (negative, neutral, positive), so the order is the model's own. The score is
how much more likely positive is than negative. A batch of posts is one run: their texts and the clauses around their
aspects, the shortest first. Only what would take too much memory at once is run in parts.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import CallerError, MissingExtra
from headrace_smap.analytics.modules.drafts import (
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    SENTIMENTS,
    AspectSentiment,
    Doubt,
    Draft,
)
from headrace_smap.analytics.modules.linear.classifier import MARGIN_MIN
from headrace_smap.analytics.modules.sentiment.module import SENTIMENT

TOKENS_MAX = 256
TEXTS_MAX = 16
"""So many texts of one post are judged: itself, and the clauses around its first aspects."""
RUN_TOKENS_MAX = 16_384
"""So many tokens are in one run, padding included: attention of a usual model then takes some hundred megabytes."""
_SHORT = {"pos": POSITIVE, "neu": NEUTRAL, "neg": NEGATIVE}
_LAYOUT = "model.onnx with tokenizer.json and config.json beside it"


Shares = dict[str, float]
"""How likely each label is."""


class OnnxSession(Protocol):
    """What is used of onnxruntime, which has no types of its own."""

    def get_inputs(self) -> Sequence[Any]: ...

    def run(self, outputs: None, feed: Mapping[str, Any]) -> Sequence[Any]: ...


class ModelSentiment:
    """Sentiment by a classifier; `opened` makes a session of the bytes of its file."""

    name = SENTIMENT
    needs = ("prepare",)

    def __init__(self, path: Path, opened: Callable[[bytes], OnnxSession] | None = None) -> None:
        tokenizers = _library("tokenizers")
        parts = {name: _bytes(path.parent / name) for name in (path.name, "tokenizer.json", "config.json")}
        self.version = "onnx-" + hashlib.blake2b(b"\0".join(parts.values()), digest_size=6).hexdigest()
        self._labels = _labels(parts["config.json"])
        self._tokenizer = _tokenizer(tokenizers, parts["tokenizer.json"])
        self._padding = (self._tokenizer.padding or {}).get("pad_id", 0)
        self._tokenizer.no_padding()
        self._session = (opened or open_session)(parts[path.name])
        self._inputs = {told.name for told in self._session.get_inputs()}

    def apply_all(self, drafts: Sequence[Draft]) -> None:
        """Fill `sentiment`, `sentiment_score`, `aspect_sentiments` and `uncertain`."""
        spoken = [_clauses(draft) for draft in drafts]
        texts = [[draft.text, *clauses.values()][:TEXTS_MAX] for draft, clauses in zip(drafts, spoken, strict=True)]
        judged = iter(self._judged([*chain.from_iterable(texts)]))
        for draft, clauses, of_draft in zip(drafts, spoken, texts, strict=True):
            whole, *others = [next(judged) for _ in of_draft]
            said = _said(whole)
            draft.sentiment, draft.sentiment_score = said["label"], said["score"]
            silent = repeat(AspectSentiment(label=NEUTRAL, score=0.0))
            draft.aspect_sentiments = dict(zip(clauses, chain(map(_said, others), silent), strict=False))
            first, second = sorted(whole.values(), reverse=True)[:2]
            if first - second < MARGIN_MIN:
                draft.uncertain[SENTIMENT] = Doubt(model=said["label"], margin=round(first - second, 4))

    def _judged(self, texts: Sequence[str]) -> list[Shares]:
        encoded = self._tokenizer.encode_batch(list(texts))
        judged: dict[int, Shares] = {}
        for places in _runs([len(one.ids) for one in encoded]):
            judged |= zip(places, self._run([encoded[place] for place in places]), strict=True)
        return [judged[place] for place in range(len(texts))]

    def _run(self, encoded: Sequence[Any]) -> list[Shares]:
        import numpy

        shape = len(encoded), max(1, *(len(one.ids) for one in encoded))
        told = {name: numpy.zeros(shape, dtype=numpy.int64) for name in ("attention_mask", "token_type_ids")}
        told["input_ids"] = numpy.full(shape, self._padding, dtype=numpy.int64)
        for row, one in enumerate(encoded):
            size = len(one.ids)
            told["input_ids"][row, :size] = one.ids
            told["attention_mask"][row, :size] = one.attention_mask
            told["token_type_ids"][row, :size] = one.type_ids
        logits = self._session.run(None, {name: told[name] for name in self._inputs & told.keys()})[0].astype(float)
        powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return [self._shares(row) for row in (powers / powers.sum(axis=1, keepdims=True)).tolist()]

    def _shares(self, likely: Sequence[float]) -> Shares:
        by_label = dict.fromkeys(SENTIMENTS, 0.0)
        for label, share in zip(self._labels, likely, strict=True):
            by_label[label] += share
        return by_label


def _said(shares: Shares) -> AspectSentiment:
    best = max(shares, key=lambda label: shares[label])
    return AspectSentiment(label=best, score=round(shares[POSITIVE] - shares[NEGATIVE], 4))


def open_session(model: bytes) -> OnnxSession:
    """A session on one thread: processes are the unit of parallel work here, and threads of its own would fight."""
    runtime = _library("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session: OnnxSession = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CallerError(f"SMAP_SENTIMENT_MODEL: the model cannot be used: {error}", _LAYOUT) from error
    return session


def _clauses(draft: Draft) -> dict[str, str]:
    """What is said around each aspect."""
    clauses: dict[str, dict[str, None]] = {}
    for aspect, number, index in draft.aspect_places:
        sentence = draft.sentences[number]
        start, end, _ = next(clause for clause in sentence.clauses if index < clause[1])
        clauses.setdefault(aspect, {})[" ".join(sentence.words[start:end])] = None
    return {aspect: " ".join(said) for aspect, said in clauses.items()}


def _runs(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Places of texts of these sizes that are run together, shortest first, because all are padded to the longest."""
    places: list[int] = []
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        if places and (len(places) + 1) * sizes[place] > RUN_TOKENS_MAX:
            yield places
            places = []
        places.append(place)
    if places:
        yield places


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
    return made
