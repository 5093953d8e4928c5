"""How fast are performance files taken in? One part for each stage, with its raw limit and the usual way beside it.

    bench/pm.py [PART…] [--counters 100000] [--rows 1000000] [--rounds 5] [--part 1.0] [--json]

`parse`: the text's nested shape, objects with 100 counters each. `scan`: a look at a folder of many names, with many
more that are known. `transfers`: files from a server into the spool, beside other clients. `kafka`: batches to a real
broker, acknowledged, and from there into chDB. `flow`: files from the server into both sinks and the archive, beside
the two designs before it. `memory`: what a worker takes with large files in flight, and after very many. `latency`:
from when a file appears until its rows are in both sinks, while files arrive. `compare`: two tables of
counters with one difference in a real MariaDB. `account`: rows of files registered, polled and held there.
`--part 0.1` makes flow, memory and latency, which take minutes, a tenth as large.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from pm_account import AccountBench
from pm_compare import CompareBench
from pm_endurance import large_files, many_files
from pm_flow import FlowBench, FlowSizes
from pm_flow_site import FlowSite
from pm_kafka import KafkaBench
from pm_latency import ArrivalBench, ArrivalSizes
from pm_parse import ParseBench
from pm_scan import ScanBench
from pm_transfers import TransferBench, TransferSizes
from rig import tell

Part = Callable[[argparse.Namespace], Iterator[dict[str, object]]]


def parse(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    with ParseBench(options.counters) as bench:
        yield from bench.results(options.rounds)


def scan(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from ScanBench(options.names, options.known).results(options.rounds)


def transfers(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    sizes = TransferSizes(options.files, options.bytes, options.connections, options.latency)
    yield from TransferBench(sizes).results(options.rounds)


def kafka(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from KafkaBench(options.counters, options.rows).results(options.rounds)


def flow(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    files = max(2, round(options.flow_files * options.part))
    yield from FlowBench(
        options.site, FlowSizes(files, options.flow_counters, options.share, tuple(options.forms))
    ).results()


def compare(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from CompareBench(options.compared).results(options.rounds)


def memory(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from large_files(options.site, LARGE_FILES, max(1_000, round(LARGE_COUNTERS * options.part)))
    yield from many_files(options.site, max(10, round(MANY_FILES * options.part)), MANY_COUNTERS)


def latency(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    files = max(2, round(ARRIVING_FILES * options.part))
    sizes = ArrivalSizes(files, ARRIVING_COUNTERS, ARRIVING_S * options.part, options.look)
    yield from ArrivalBench(options.site, sizes).results()


# Ten files of 11 MB each; ten thousand small ones; five thousand in five minutes.
LARGE_FILES, LARGE_COUNTERS = 10, 630_000
MANY_FILES, MANY_COUNTERS = 10_000, 20
ARRIVING_FILES, ARRIVING_COUNTERS, ARRIVING_S = 5_000, 500, 300.0


def account(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from AccountBench(options.names, options.known).results(options.rounds)


PARTS: dict[str, Part] = {
    "parse": parse,
    "scan": scan,
    "transfers": transfers,
    "kafka": kafka,
    "flow": flow,
    "compare": compare,
    "memory": memory,
    "latency": latency,
    "account": account,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--counters", type=int, default=100_000, help="in a file")
    parser.add_argument("--names", type=int, default=5_000, help="in a folder")
    parser.add_argument("--known", type=int, default=500_000, help="names in Redis, or rows of files")
    parser.add_argument("--files", type=int, default=300, help="to transfer")
    parser.add_argument("--bytes", type=int, default=50_000, help="in each of them")
    parser.add_argument("--connections", type=int, default=10, help="to transfer them by")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds each way, of a server far away")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are sent to Kafka")
    parser.add_argument("--flow-files", type=int, default=1_000, help="that are taken in from end to end")
    parser.add_argument("--flow-counters", type=int, default=5_000, help="in each of them")
    parser.add_argument("--share", type=float, default=0.05, help="of them for the designs before it")
    parser.add_argument("--compared", type=int, default=10_000_000, help="rows in each of two tables")
    parser.add_argument("--forms", nargs="+", default=["json", "rowbinary"], help="of records, for flow")
    parser.add_argument("--look", type=float, default=10.0, help="seconds between two looks, for latency")
    parser.add_argument("--part", type=float, default=1.0, help="of the sizes of flow, memory and latency")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts")
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    with FlowSite() as options.site:
        for name in options.parts or PARTS:
            for result in PARTS[name](options):
                tell({"part": name, **result}, options.json)


if __name__ == "__main__":
    main()
