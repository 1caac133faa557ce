"""Three things that gpuar shows or gains, each in some seconds, no GPU needed."""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Unavailable, Veth
from lanes import BUILD, Failure, mpi

PROGRAMS = BUILD / "test" / "mpi"
BENCH = BUILD / "bench" / "gpuar_bench"
FLAT = ("ring", "recursive_doubling", "tree")


def heading(text):
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def late_rank():
    heading("A rank is late: coll_gpuar_report says which, and what it cost")
    argv = [PROGRAMS / "late", 100, 65536, 2, 3000]
    mca = {"coll_gpuar_report": 1, "coll_gpuar_counters": 0}
    result = mpi.succeed(mpi.mpirun(4, argv, mca=mca))
    print("Four ranks; rank 2 enters each of 100 calls 3 ms late.\n")
    print(result.output[result.output.index("gpuar report") :].strip())


def mismatch():
    heading("Ranks disagree on a call: coll_gpuar_check names them, where others hang or add garbage")
    argv = [PROGRAMS / "mismatch", "count", "blocking", "fatal"]
    mca = {"coll_gpuar_check": 1, "coll_gpuar_counters": 0}
    result = mpi.mpirun(3, argv, mca=mca)
    print("Three ranks; the last one passes another count than the others.\n")
    lines = [line for line in result.output.splitlines() if "the ranks disagree" in line]
    if not lines:
        raise Failure(f"nobody was named\n{result.tail()}")
    print(lines[0])


def sample(cluster, algorithm, size):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        argv = [BENCH, "--sizes", size, "--form", "blocking", "--min-time", "0.3", "--json", file]
        settings = cluster.mpirun()
        settings["mca"] |= {"coll_gpuar_algorithm": algorithm}
        mpi.succeed(mpi.mpirun(sum(cluster.ranks), argv, **settings), algorithm)
        return json.loads(file.read_text())["results"][0]["median_us"]


def hierarchy(rounds):
    heading("Two hosts of two ranks, a link of 1 Gbit/s: along the nodes, and flat")
    names = ("auto", *FLAT)
    print("".join([f"{'µs':>8}", *(f"{name:>20}" for name in names), f"{'auto / best flat':>20}"]))
    with Cluster([2, 2], Veth("1gbit")) as cluster:
        for size in ("8", "32K", "2M"):
            times = {name: [] for name in names}
            for _ in range(rounds):
                for name in names:
                    times[name].append(sample(cluster, name, size))
            medians = {name: statistics.median(values) for name, values in times.items()}
            ratio = medians["auto"] / min(medians[name] for name in FLAT)
            columns = "".join(f"{medians[name]:>20.1f}" for name in names)
            print(f"{size:>8}{columns}{ratio:>20.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        prog="bench/demo",
        description="Installs what is missing, builds, and shows what gpuar says of a late rank and of "
        "ranks that disagree, and what it gains along the nodes of two hosts, which are made on this "
        "machine and take root.",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of the last part (%(default)s)")
    arguments = parser.parse_args()
    late_rank()
    mismatch()
    try:
        hierarchy(arguments.rounds)
    except Unavailable as why:
        print(f"left out: {why}")


try:
    main()
except Failure as why:
    sys.exit(f"bench/demo: {why}")
