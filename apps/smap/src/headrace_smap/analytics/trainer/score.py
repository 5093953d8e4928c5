"""How good an answer is: how often it is right, and how many posts of each label it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Labels = frozenset[str]


@dataclass(frozen=True, slots=True)
class Score:
    """`accuracy`: posts whose labels are all right. `recall`: of the posts that have a label, those where it was found.
    `macro_f1`: the mean over labels."""

    accuracy: float
    macro_f1: float
    recall: Mapping[str, float]

    @staticmethod
    def of(truth: Sequence[Labels], answers: Sequence[Labels]) -> Score:
        pairs = list(zip(truth, answers, strict=True))
        labels = sorted({label for expected in truth for label in expected})
        return Score(
            round(sum(expected == answer for expected, answer in pairs) / max(len(pairs), 1), 4),
            round(sum(_f1(label, pairs) for label in labels) / max(len(labels), 1), 4),
            {label: round(_recall(label, pairs), 4) for label in labels},
        )


def _recall(label: str, pairs: Sequence[tuple[Labels, Labels]]) -> float:
    asked = [label in answer for expected, answer in pairs if label in expected]
    return sum(asked) / len(asked)


def _f1(label: str, pairs: Sequence[tuple[Labels, Labels]]) -> float:
    hit = sum(label in expected and label in answer for expected, answer in pairs)
    said = sum(label in answer for _, answer in pairs)
    asked = sum(label in expected for expected, _ in pairs)
    return 2 * hit / (said + asked)
