"""Modules by name, in order, as one analysis.

Names come from a registry: ours, and those that installed packages offer in the entry point group
`headrace.smap.modules` (a factory that takes `ModuleOptions`). Never from a message. The model version is a digest of
names, versions and word lists: results that carry the same one can be compared.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from headrace.errors import CallerError
from headrace.services import Sources, read, setting
from headrace_smap.analytics.modules.drafts import AnalysisContext, BatchModule, Draft, Module
from headrace_smap.analytics.modules.posts import RawPost
from headrace_smap.analytics.modules.text.lexicons import lists_digest
from headrace_smap.settings import PREFIX

GROUP = "headrace.smap.modules"
NAMES = ("prepare", "intent", "aspects", "sentiment", "impact")
"""The five modules, in the order in which they build on each other."""
NOTHING = "nothing"
Fault = Exception | SystemExit | None
BATCH_MAX = 100
"""So many drafts are in work at once: enough for a model to be cheap, and little memory for posts of any length."""
_HERE = "headrace_smap.analytics.modules"
_OURS = {
    "prepare": f"{_HERE}.prepare:Prepare",
    "intent": f"{_HERE}.intent:Intent",
    "aspects": f"{_HERE}.aspects:Aspects",
    "sentiment": f"{_HERE}.sentiment.module:sentiment",
    "impact": f"{_HERE}.impact:Impact",
    NOTHING: f"{_HERE}.nothing:Nothing",
}


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """What the modules can be told: which, in order; a file with more aspects; models beside the rules, and one in
    place of the sentiment rules."""

    modules: tuple[str, ...] = setting(NAMES, "the modules in order")
    aspects_file: Path | None = setting(
        None, "a file with more aspects", variable=f"{PREFIX}ASPECTS", parse=Path, without="none"
    )
    models: tuple[str, ...] = setting(
        (), "models of `headrace smap train`, separated by commas", without="the rules alone"
    )
    sentiment_model: Path | None = setting(None, "a model in place of the sentiment rules", without="none")

    @staticmethod
    def read(environment: Mapping[str, str]) -> ModuleOptions:
        return read(ModuleOptions, Sources(PREFIX, environment))


class Pipeline:
    """Modules that are ready to look at posts. Holds no state of a post: any number of threads may use it."""

    def __init__(self, modules: Sequence[Module | BatchModule]) -> None:
        self.modules = tuple(modules)
        self.names = tuple(module.name for module in modules)
        told = "\n".join((lists_digest(), *(f"{module.name}={module.version}" for module in modules)))
        self.model_version = hashlib.blake2b(told.encode(), digest_size=6).hexdigest()

    def run(self, drafts: Sequence[Draft]) -> list[Fault]:
        """Fill in the drafts of a batch, module by module. What a module raises for a draft ends that draft and no
        other; it stands in the draft's place of the answer, with the module's name as a note."""
        faults: list[Fault] = [None] * len(drafts)
        for module in self.modules:
            places = [place for place, fault in enumerate(faults) if fault is None]
            for place, fault in zip(places, _applied(module, [drafts[place] for place in places]), strict=True):
                faults[place] = fault
        return faults

    def apply(self, post: RawPost | Mapping[str, object], context: AnalysisContext) -> Draft:
        """The finished draft of one post; raises what a module raised."""
        return self.analyse((post,), context)[0]

    def analyse(self, posts: Iterable[RawPost | Mapping[str, object]], context: AnalysisContext) -> list[Draft]:
        """All of them; the first that cannot be analysed raises."""
        drafts = [Draft.of(post if isinstance(post, RawPost) else RawPost.read(post), context) for post in posts]
        for first in range(0, len(drafts), BATCH_MAX):
            for fault in self.run(drafts[first : first + BATCH_MAX]):
                if fault is not None:
                    raise fault
        return drafts

    def warm(self) -> None:
        """Load what would be loaded by the first posts, so that a child process can inherit it."""
        for module in self.modules:
            load = getattr(module, "warm", None)
            if load is not None:
                load()


def _applied(module: Module | BatchModule, drafts: Sequence[Draft]) -> list[Fault]:
    """What a module raised for each draft."""
    if isinstance(module, BatchModule):
        return _applied_to_batch(module, drafts) if drafts else []
    faults: list[Fault] = []
    for draft in drafts:
        try:
            module.apply(draft)
        except (Exception, SystemExit) as error:
            error.add_note(f"module:{module.name}")
            faults.append(error)
        else:
            faults.append(None)
    return faults


def _applied_to_batch(module: BatchModule, drafts: Sequence[Draft]) -> list[Fault]:
    """All at once; singly after it raised for several, so that only the guilty ones end."""
    try:
        module.apply_all(drafts)
    except (Exception, SystemExit) as error:
        if len(drafts) > 1:
            return [fault for draft in drafts for fault in _applied_to_batch(module, (draft,))]
        error.add_note(f"module:{module.name}")
        return [error]
    return [None] * len(drafts)


def pipeline(names: Sequence[str] = NAMES, options: ModuleOptions | None = None) -> Pipeline:
    """The modules of these names, in this order."""
    chosen = options or ModuleOptions()
    modules: list[Module | BatchModule] = []
    learned = _learned(chosen, names)
    for name in names:
        module = learned(_factory(name)(chosen))
        missing = [need for need in getattr(module, "needs", ()) if need not in {built.name for built in modules}]
        if missing:
            raise CallerError(f"module {name} needs {', '.join(missing)} before it", f"SMAP_MODULES={','.join(NAMES)}")
        modules.append(module)
    return Pipeline(modules)


def _learned(options: ModuleOptions, names: Sequence[str]) -> Callable[[Module | BatchModule], Module | BatchModule]:
    """What puts a model beside a module, if the options name one for it."""
    if not options.models:
        return lambda module: module
    # numpy takes longer to load than all word lists.
    from headrace_smap.analytics.modules.linear.learned_module import LearnedModule, models_in

    models = models_in(options, names)

    def with_model(module: Module | BatchModule) -> Module | BatchModule:
        if module.name not in models:
            return module
        if isinstance(module, BatchModule):
            raise CallerError(f"there are two models of {module.name}", "SMAP_MODELS or SMAP_SENTIMENT_MODEL, not both")
        return LearnedModule(module, models[module.name])

    return with_model


def pipeline_of(environment: Mapping[str, str]) -> Pipeline:
    """The modules that the settings name."""
    options = ModuleOptions.read(environment)
    return pipeline(options.modules or NAMES, options)


def known_names() -> list[str]:
    """Every module that can be named."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))})


def _factory(name: str) -> Callable[[ModuleOptions], Module | BatchModule]:
    # A package may replace one of ours under the same name: it was installed on purpose.
    for point in entry_points(group=GROUP, name=name):
        factory: Callable[[ModuleOptions], Module | BatchModule] = point.load()
        return factory
    if name not in _OURS:
        raise CallerError(f"there is no module {name!r}", f"known: {', '.join(known_names())}")
    module, _, attribute = _OURS[name].partition(":")
    ours: Callable[[ModuleOptions], Module | BatchModule] = getattr(importlib.import_module(module), attribute)
    return ours
