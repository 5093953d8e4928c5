"""What do models of `headrace smap train` cost beside the rules, in processor time of one core?

Models of the labelled posts that ship with smap; the modules with and without them look at the same posts in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rig import tell

from headrace_smap.analytics.modules import BATCH_MAX, AnalysisContext, ModuleOptions, pipeline
from headrace_smap.analytics.modules.bench import NOW, posts_per_second, sample_posts
from headrace_smap.analytics.modules.linear.learned_module import LABELS
from headrace_smap.analytics.modules.linear.model_file import read, write
from headrace_smap.analytics.modules.linear.ngrams import comparable
from headrace_smap.analytics.quality import shipped
from headrace_smap.analytics.trainer.trainer import train


def trained(module: str, folder: str, quiet: bool) -> str:
    posts, begun = shipped(module), time.thread_time()
    found = train(posts, module, pipeline())
    path = Path(folder) / f"{module}.model"
    write(path, found.model)
    spent = round(time.thread_time() - begun, 2)
    tell({"what": "train", "module": module, "n": len(posts), "processor_s": spent}, quiet)
    return str(path)


def alone(path: str, count: int) -> float:
    """Microseconds that a model by itself takes for a post, of texts that are prepared already."""
    drafts = pipeline().analyse(sample_posts(count), AnalysisContext(NOW))
    model = read(Path(path))
    begun = time.thread_time()
    for first in range(0, count, BATCH_MAX):
        model.logits([comparable(draft) for draft in drafts[first : first + BATCH_MAX]])
    return 1e6 * (time.thread_time() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--n", type=int, default=3_000, help="posts")
    parser.add_argument("--rounds", type=int, default=5, help="of each; the median counts")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="smap-models-") as folder:
        models = {module: trained(module, folder, arguments.json) for module in LABELS}
        chosen = {"rules": (), "sentiment": (models["sentiment"],), "all": tuple(models.values())}
        spent: dict[str, list[float]] = {name: [] for name in chosen}
        for _ in range(arguments.rounds):
            for name, paths in chosen.items():
                spent[name].append(1e6 / posts_per_second(arguments.n, ModuleOptions(models=paths)))
        for module, path in models.items():
            cost = statistics.median(alone(path, arguments.n) for _ in range(arguments.rounds))
            tell({"what": "model", "module": module, "n": arguments.n, "us_per_post": round(cost, 1)}, arguments.json)
    rules = statistics.median(spent["rules"])
    for name, each in spent.items():
        cost = statistics.median(each)
        told = {"what": name, "n": arguments.n, "us_per_post": round(cost), "ratio": round(cost / rules, 3)}
        tell(told, arguments.json)


if __name__ == "__main__":
    main()
