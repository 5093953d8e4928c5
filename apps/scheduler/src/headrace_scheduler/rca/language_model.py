"""The causes in a language model's words, by an OpenAI-compatible endpoint: optional, redacted, without consequence.

What is sent are the causes that the rules have found, with every name of a machine, a worker, a job and an address
replaced. What comes back is a text that is shown as such: nothing in it is carried out, and no evidence is taken from
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx

from headrace.errors import CallerError, OperatorError
from headrace.services import Sources, read, setting
from headrace_scheduler.rca.evidence import Evidence
from headrace_scheduler.rca.root_causes import RootCause

PREFIX = "RCA_"
ANSWER_S_MAX = 60.0
ANSWER_CHARS_MAX = 4_000
INSTRUCTION = (
    "You explain to an operator what went wrong in a job scheduler. You get causes that rules have found, with their "
    "signs and suggested actions. Tell it in at most 150 words, the root cause first. Add no facts and no commands."
)
_PATTERNS = {
    "job": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "address": re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\blocalhost(?::\d+)?\b"),
    "secret": re.compile(r"(?i)\b(?:password|token|secret|api[_-]?key)\s*[=:]\s*\S+|\bBearer\s+\S+|\bsk-[\w-]{8,}"),
}


@dataclass(frozen=True, slots=True)
class LanguageModelSettings:
    """Nobody is asked without an address."""

    llm_url: str = setting("", "an OpenAI-compatible endpoint that phrases reports, as https://host/v1", without="none")
    llm_model: str = setting("", "the model that it is asked for", without="none")
    llm_key: str = setting("", "the key for it", secret=True, without="none")

    def __post_init__(self) -> None:
        if self.llm_url and not self.llm_model:
            raise CallerError("RCA_LLM_URL is set and RCA_LLM_MODEL is not", "name the model")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LanguageModelSettings:
        return read(cls, Sources(PREFIX, environment))


@dataclass(slots=True)
class Redaction:
    """Names are replaced by what they are and a number, and put back into the answer."""

    names: dict[str, str] = field(default_factory=dict)

    def hide(self, text: str, known: Iterable[str]) -> str:
        for name in sorted({name for name in known if name}, key=len, reverse=True):
            text = text.replace(name, self._standing_for(name, "name"))
        for kind, pattern in _PATTERNS.items():
            text = pattern.sub(lambda found, kind=kind: self._standing_for(found[0], kind), text)  # type: ignore[misc]
        return text

    def show(self, text: str) -> str:
        """What was hidden as a secret stays so."""
        for name, standing in self.names.items():
            if not standing.startswith("<secret"):
                text = text.replace(standing, name)
        return text

    def _standing_for(self, name: str, kind: str) -> str:
        return self.names.setdefault(name, f"<{kind}-{len(self.names) + 1}>")


async def phrase(settings: LanguageModelSettings, evidence: Evidence, causes: Iterable[RootCause]) -> str:
    """What the model says. `OperatorError` if it does not answer."""
    redaction = Redaction()
    asked = redaction.hide(_told(causes), _names(evidence))
    body = {
        "model": settings.llm_model,
        "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": asked}],
    }
    headers = {"Authorization": f"Bearer {settings.llm_key}"} if settings.llm_key else {}
    url = f"{settings.llm_url.rstrip('/')}/chat/completions"
    try:
        async with httpx.AsyncClient(timeout=ANSWER_S_MAX, headers=headers) as client:
            answer = await client.post(url, json=body)
            answer.raise_for_status()
            text = answer.json()["choices"][0]["message"]["content"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as error:
        raise OperatorError(f"RCA_LLM_URL did not phrase the report: {type(error).__name__}") from None
    return redaction.show(str(text)[:ANSWER_CHARS_MAX])


def _told(causes: Iterable[RootCause]) -> str:
    parts = [
        "\n".join((f"cause: {each.cause}", f"about: {each.subject}", *each.signs, *each.actions)) for each in causes
    ]
    return "\n\n".join(parts) or "nothing looks wrong"


def _names(evidence: Evidence) -> set[str]:
    """Names of machines and workers that may be in a sign."""
    workers = {run.worker_id for run in evidence.runs if run.worker_id}
    instances = {series.labels.get("instance", "") for series in evidence.series}
    return workers | instances | {lock.holder for lock in evidence.locks} | {lock.resource for lock in evidence.locks}
