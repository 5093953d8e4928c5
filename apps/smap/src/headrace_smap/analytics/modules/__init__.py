"""The analysis of a post: five modules, offline, for Vietnamese and English.

`prepare` makes text comparable, `intent` says what the author wants and whether it is spam, `aspects` what it is about,
`sentiment` how it is meant, and `impact` how much it matters. All are plain functions of the post and a given moment.
"""

from headrace_smap.analytics.modules.drafts import (
    COLUMNS,
    CRITICAL,
    ENGLISH,
    HIGH,
    LOW,
    MEDIUM,
    MIXED,
    NEGATIVE,
    NEUTRAL,
    OTHER,
    POSITIVE,
    UNKNOWN,
    VIETNAMESE,
    AnalysisContext,
    Draft,
    Module,
    Sentence,
)
from headrace_smap.analytics.modules.pipelines import (
    GROUP,
    NAMES,
    NOTHING,
    ModuleOptions,
    Pipeline,
    known_names,
    pipeline,
    pipeline_of,
)
from headrace_smap.analytics.modules.posts import (
    TEXT_CHARS_MAX,
    InvalidPost,
    RawPost,
)

__all__ = [
    "COLUMNS",
    "CRITICAL",
    "ENGLISH",
    "HIGH",
    "LOW",
    "MEDIUM",
    "MIXED",
    "NEGATIVE",
    "NEUTRAL",
    "OTHER",
    "POSITIVE",
    "UNKNOWN",
    "VIETNAMESE",
    "AnalysisContext",
    "Draft",
    "Module",
    "Sentence",
    "GROUP",
    "NAMES",
    "NOTHING",
    "ModuleOptions",
    "Pipeline",
    "known_names",
    "pipeline",
    "pipeline_of",
    "TEXT_CHARS_MAX",
    "InvalidPost",
    "RawPost",
]
