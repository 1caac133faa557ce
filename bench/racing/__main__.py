"""bench/race: gpuar beside every other allreduce that can be had, on host memory."""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cluster import Cluster, Unavailable
from lanes import ROOT, Failure
from racing import cliffs, entrants, plot, report, starting
from racing.entrants import FORMS
from racing.homes import CORES, NativeOpenMPI
from racing.field import Field, Matrix
from racing.job import Probe

EVERY_SIZE = tuple(4 << shift for shift in range(27))
SOME_SIZES = EVERY_SIZE[::3]
QUICK = Matrix(2, SOME_SIZES[:-1], rounds=3, seconds=0.01, cap=0.5)
CORE = Matrix(2, EVERY_SIZE)
HOSTS = (2, 2)  # ranks on each, for --full
BETWEEN_HOSTS = Matrix(sum(HOSTS), SOME_SIZES[:-1], pinned=False, seconds=0.1)
LARGEST_CLIFF = 64 << 20
ELEMENT_BYTES = {"float": 4, "int32": 4, "double": 8, "int64": 8}


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of 1 or more")
    return int(text)


def sizes(text):
    """A list: 8,2K,1M."""
    found = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)([KMG]?)", word)
        if not match or int(match[1]) == 0:
            raise argparse.ArgumentTypeError(f"'{word}' is not a size: 8, 2K, 1M")
        found.append(int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]])
    return tuple(sorted(found))


def hosts(text):
    return tuple(positive(word) for word in text.split(","))


def forms(text):
    chosen = tuple(text.split(","))
    if not set(chosen) <= set(FORMS):
        raise argparse.ArgumentTypeError(f"forms are {', '.join(FORMS)}")
    return chosen


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/race",
        description="Installs what is missing, builds, and times gpuar beside every other "
        "allreduce that can be had, all in turn, round after round. Every result is checked.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="some sizes, up to 8 MiB: less than 3 minutes"
    )
    size.add_argument(
        "--full",
        action="store_true",
        help="more types and operations, 4 and 8 ranks, a cluster of hosts made here",
    )
    parser.add_argument(
        "--peers", metavar="PEER,…", help="these alone, by the start of their names"
    )
    parser.add_argument("--sizes", type=sizes, help="a list: 8,2K,1M (default: 4 B to 256 MiB)")
    parser.add_argument("--forms", type=forms, help=f"of {','.join(FORMS)} (default: all)")
    parser.add_argument("--ranks", type=positive, help="ranks (default: 2)")
    parser.add_argument(
        "--hosts", type=hosts, help="2,2: on hosts made on this machine, ranks on each; that alone"
    )
    parser.add_argument("--type", choices=ELEMENT_BYTES, help="of the elements (default: float)")
    parser.add_argument("--op", choices=("sum", "prod", "min", "max"), help="(default: sum)")
    parser.add_argument("--rounds", type=positive, help="rounds of all (default: 5; --quick: 3)")
    parser.add_argument("--seconds", type=float, help="of calls in a sample (default: 0.02)")
    parser.add_argument("--cap", type=float, help="seconds that an entrant may take for one size")
    parser.add_argument("--cliffs", action="store_true", help="the search for cliffs alone")
    parser.add_argument("--start", action="store_true", help="what starting a job takes, alone")
    parser.add_argument("--json", metavar="FILE", help="write all samples here")
    parser.add_argument("--svg", metavar="FILE", help="draw latency and bus bandwidth (race.svg)")
    parser.add_argument(
        "--docs", action="store_true", help="renew the tables and the picture in docs/"
    )
    parser.add_argument("--show", metavar="FILE", help="what an earlier run has written: no race")
    return parser.parse_args()


def asked(matrix, arguments):
    """The matrix with what the command line says."""
    names = ("sizes", "forms", "ranks", "type", "op", "rounds", "seconds", "cap")
    given = {name: getattr(arguments, name) for name in names}
    matrix = replace(matrix, **{name: value for name, value in given.items() if value is not None})
    return replace(matrix, pinned=matrix.pinned and matrix.ranks <= CORES)


def matrices(arguments):
    """What is to be run on one host, the core matrix first."""
    base = asked(QUICK if arguments.quick else CORE, arguments)
    yield base
    if arguments.full:
        for type_name, op in (("double", "sum"), ("int32", "max")):
            yield replace(base, type=type_name, op=op, sizes=SOME_SIZES)
        for ranks in (4, 8):
            yield replace(base, ranks=ranks, sizes=SOME_SIZES, pinned=False, seconds=0.05)


def log(text):
    print(f"bench/race: {text}", file=sys.stderr)


def chosen(peers, wanted):
    if not wanted:
        return peers
    found = [peer for peer in peers if peer.peer.startswith(tuple(wanted.split(",")))]
    if not found:
        names = ", ".join(sorted({peer.peer for peer in peers}))
        raise Failure(f"no peer is called {wanted}; there are: {names}")
    return found


def race(arguments):
    """Everything that is measured, as it goes into a file."""
    document = {"processor": processor(), "matrices": [], "skipped": []}
    if arguments.start or not (arguments.quick or arguments.hosts or arguments.cliffs):
        log("starting and ending jobs")
        document["start"] = starting.measure()
    with contextlib.ExitStack() as stack:
        probe = stack.enter_context(contextlib.closing(Probe()))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="race-"))
        if not (arguments.hosts or arguments.start):
            race_on_host(arguments, document, probe, folder)
        if arguments.hosts or arguments.full:
            race_between_hosts(arguments, document, probe, folder)
    document["load"] = os.getloadavg()[0]
    return document


def race_on_host(arguments, document, probe, folder):
    home = NativeOpenMPI()
    peers = []
    if not arguments.cliffs:
        everyone, document["skipped"] = entrants.everyone(home, log, not arguments.quick)
        peers = [*chosen(everyone, arguments.peers), entrants.bound(probe)]
    runners = entrants.with_gpuar(home, peers)
    for matrix in matrices(arguments):
        with Field(matrix, runners, probe, folder, log) as field:
            if not arguments.cliffs:
                document["matrices"].append(field.run())
            if arguments.cliffs or not (arguments.quick or "cliffs" in document):
                document["cliffs"] = search_for_cliffs(field, runners[0], arguments)


def search_for_cliffs(field, gpuar, arguments):
    """Of blocking calls; of all forms if that is asked for."""
    matrix = field.matrix
    found = matrix.forms if arguments.cliffs or arguments.full else matrix.forms[:1]
    powers = [size for size in matrix.sizes if size <= LARGEST_CLIFF]
    return cliffs.search(field, gpuar, found, powers, ELEMENT_BYTES[matrix.type])


def race_between_hosts(arguments, document, probe, folder):
    ranks = arguments.hosts or HOSTS
    where = f"{len(ranks)} hosts with links of 1 Gbit/s"
    matrix = asked(BETWEEN_HOSTS, arguments) if arguments.hosts else BETWEEN_HOSTS
    matrix = replace(matrix, ranks=sum(ranks), where=where)
    try:
        with Cluster(list(ranks)) as cluster:
            home = NativeOpenMPI(cluster)
            runners = entrants.with_gpuar(home, entrants.on_cluster(home))
            with Field(matrix, runners, probe, folder, log) as field:
                document["matrices"].append(field.run())
    except Unavailable as why:
        document["skipped"].append((where, str(why)))


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {CORES} cores"
    return f"{CORES} cores"


def main():
    arguments = parse_arguments()
    start = time.monotonic()
    if arguments.show:
        document = json.loads(Path(arguments.show).read_text())
    else:
        document = race(arguments)
        document["seconds"] = time.monotonic() - start
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document))
    # As it is read from a file.
    document = json.loads(json.dumps(document))
    print(report.text(document))
    if arguments.svg and document["matrices"]:
        plot.draw(document, arguments.svg)
    if arguments.docs:
        report.renew(document, ROOT / "docs")
    if failed := report.failures(document):
        raise Failure(failed)


try:
    main()
except Failure as failure:
    sys.exit(f"bench/race: {failure}")
