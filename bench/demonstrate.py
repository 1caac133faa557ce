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
SIZES = {"8 B": "8", "32 KiB": "32K", "2 MiB": "2M"}


def heading(text):
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def late_rank():
    heading("1. A rank is late: gpuar says which, and what it cost")
    argv = [PROGRAMS / "late", 100, 65536, 2, 3000]
    mca = {"coll_gpuar_report": 1, "coll_gpuar_counters": 0}
    result = mpi.succeed(mpi.mpirun(4, argv, mca=mca))
    print("Four ranks call MPI_Allreduce 20 times with 4 bytes to warm up, then 100 times with 64 KiB,")
    print("which rank 2 enters 3 ms late each time. What is printed at the end, with")
    print("    mpirun --mca coll gpuar --mca coll_gpuar_report 1 ./app\n")
    print(result.output[result.output.index("gpuar report") :].strip())
    print("\nwaiting: the part of the calls' time that went on waiting for the last rank to come;")
    print("last most often: who that was, and in how many of the calls.")


def mismatch():
    heading("2. Ranks disagree on a call: gpuar says who, where others hang or add garbage")
    argv = [PROGRAMS / "mismatch", "count", "blocking", "fatal"]
    mca = {"coll_gpuar_check": 1, "coll_gpuar_counters": 0}
    result = mpi.mpirun(3, argv, mca=mca)
    print("Three ranks call MPI_Allreduce, the last one with 101 elements instead of 100. The job ends")
    print("with this line, with")
    print("    mpirun --mca coll gpuar --mca coll_gpuar_check 1 ./app\n")
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
        settings["options"] += ["--map-by", "node"]
        mpi.succeed(mpi.mpirun(sum(cluster.ranks), argv, **settings), algorithm)
        return json.loads(file.read_text())["results"][0]["median_us"]


def hierarchy(rounds):
    heading("3. Two hosts: what it gains to know which ranks sit on which")
    print("Two ranks on each of two hosts, made on this machine; the link between them has 1 Gbit/s.")
    print("They are placed in turn, so that neighbours by rank are on different hosts. Microseconds of")
    print("an MPI_Allreduce, medians: as gpuar chooses by itself, and by algorithms that know of no")
    print("hosts, which a parameter forces:")
    print("    mpirun --map-by node --mca coll gpuar --mca coll_gpuar_algorithm ring ./app\n")
    print("".join(f"{name:>20}" for name in ("", "gpuar's choice", *FLAT, "choice / best other")))
    with Cluster([2, 2], Veth("1gbit")) as cluster:
        for size, words in SIZES.items():
            times = {name: [] for name in ("auto", *FLAT)}
            for _ in range(rounds):
                for name, found in times.items():
                    found.append(sample(cluster, name, words))
            medians = {name: statistics.median(values) for name, values in times.items()}
            ratio = medians["auto"] / min(medians[name] for name in FLAT)
            columns = "".join(f"{median:>20.1f}" for median in medians.values())
            print(f"{size:>20}{columns}{ratio:>20.2f}", flush=True)
    print("\nBelow 1 the choice is faster than the best of the others. docs/selection.md: how it is made.")


def warn_if_busy():
    running = Path("/proc/loadavg").read_text().split()[3]  # of all, such as 3/120
    if others := int(running.split("/")[0]) - 1:
        print(f"note: {others} other processes are running here: all times below are disturbed")


def main():
    parser = argparse.ArgumentParser(
        prog="bench/demo",
        description="Installs what is missing, builds, and shows what gpuar says of a late rank and of "
        "ranks that disagree, and what it gains along the nodes of two hosts, which are made on this "
        "machine and take root.",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of the last part (%(default)s)")
    arguments = parser.parse_args()
    warn_if_busy()
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
