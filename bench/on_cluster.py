"""Times allreduce on hosts that are made on this machine: gpuar as it chooses, each of its flat
algorithms, and stock Open MPI, beside the least time that the links allow and what gpuar_sim predicts.

All run in turn, round after round, on the same hosts; a figure is the median over the rounds, and a
ratio the median of the ratios within one round. The bound of N hosts is 2 (N - 1) / N times the
bytes over the rate of a link: what each of them has to send at least.

With --tune it runs gpuar_tune there instead: the regret of what gpuar chooses."""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Unavailable, Veth
from cluster.links import bits_per_second
from lanes import BUILD, Failure, mpi

BENCH = BUILD / "bench" / "gpuar_bench"
SIM = BUILD / "bench" / "gpuar_sim"
TUNE = BUILD / "bench" / "gpuar_tune"
FLAT = ["ring", "recursive_doubling", "tree", "rabenseifner", "direct", "two_shot"]

# Open MPI's own collectives over either of the ways in which it sends messages between hosts.
PML_UCX = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
PML_OB1 = {"pml": "ob1", "btl": "tcp,vader,self"}
HAN = {"coll_han_priority": 100}
STOCK = {
    "tuned, ucx": PML_UCX,
    "han, ucx": PML_UCX | HAN,
    "tuned, ob1": PML_OB1,
    "han, ob1": PML_OB1 | HAN,
}
GPUAR = {"gpuar": {}} | {name: {"coll_gpuar_algorithm": name} for name in FLAT}


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/cluster",
        description="Installs what is missing, builds, and times gpuar beside stock Open MPI and "
        "beside the bound of the links, on hosts made on this machine. Takes root. Every element "
        "of every result is checked.",
    )
    parser.add_argument(
        "--hosts",
        default="2,2:2,2,2,2",
        help="ranks on each host; a colon between clusters (%(default)s)",
    )
    parser.add_argument("--rate", default="1gbit", help="of each link (%(default)s)")
    parser.add_argument("--sizes", default="8,2K,32K,2M,8M", help="as of gpuar_bench (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all (%(default)s)")
    parser.add_argument(
        "--min-time", default="0.2", help="seconds of calls per size and round (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the samples of all rounds here")
    parser.add_argument(
        "--tune",
        action="store_true",
        help="run gpuar_tune on the hosts instead: how far gpuar's choices are from the fastest",
    )
    return parser.parse_args()


def sample(cluster, component, mca, arguments):
    """One run: {bytes: median time of a call, in µs}."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        argv = [BENCH, "--sizes", arguments.sizes, "--form", "blocking", "--json", file]
        argv += ["--min-time", arguments.min_time, "--warmup", 3]
        settings = cluster.mpirun()
        settings["mca"] |= mca
        result = mpi.mpirun(sum(cluster.ranks), argv, component, timeout=600, **settings)
        mpi.succeed(result, f"gpuar_bench with {component} and {mca}")
        results = json.loads(file.read_text())["results"]
    wanted = "gpuar" if component == "gpuar" else "other"
    others = [entry for entry in results if entry["served_by"] != wanted]
    if others:
        raise Failure(f"not served by {wanted}: {others}")
    return {entry["bytes"]: entry["median_us"] for entry in results}


def measure(cluster, arguments):
    """All rounds: a list of {name: {bytes: µs}}."""
    rounds = []
    for number in range(1, arguments.rounds + 1):
        print(f"bench/cluster: round {number} of {arguments.rounds}", file=sys.stderr)
        rounds.append(
            {name: sample(cluster, "stock", mca, arguments) for name, mca in STOCK.items()}
            | {name: sample(cluster, "gpuar", mca, arguments) for name, mca in GPUAR.items()}
        )
    return rounds


def tune(cluster, arguments):
    """Prints what gpuar_tune finds on these hosts: the regret of the cost model and of its file."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [TUNE, "--sizes", arguments.sizes, "--rounds", arguments.rounds]
        argv += ["--min-time", arguments.min_time, "--output", Path(folder) / "tuning.toml"]
        settings = cluster.mpirun()
        settings["mca"]["coll_gpuar_counters"] = None
        result = mpi.mpirun(sum(cluster.ranks), argv, "gpuar", timeout=1800, **settings)
    mpi.succeed(result, "gpuar_tune")
    print("".join(line for line in result.output.splitlines(True) if folder not in line))


def bound_us(hosts, size, rate):
    return 2 * (hosts - 1) / hosts * size * 8 / bits_per_second(rate) * 1e6


def human(size):
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def best(rounds, names, size):
    """The one of `names` that is fastest, by median."""
    return min(names, key=lambda name: statistics.median(times[name][size] for times in rounds))


def spread(values):
    if min(values) > 10:
        return "-"  # latency counts, not bytes
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def print_table(cluster, rounds, rate):
    hosts = len(cluster.ranks)
    print(f"\n{hosts} hosts, {' + '.join(map(str, cluster.ranks))} ranks; links: {cluster.link}")
    names = [*STOCK, "gpuar", "best flat", "bound"]
    ratios = ["gpuar/bound", "gpuar/best stock", "gpuar/best flat"]
    print("".join([f"{'µs':>8}", *(f"{name:>12}" for name in names)]), end="  ")
    print("".join(f"{ratio:>19}" for ratio in ratios))
    for size in rounds[0]["gpuar"]:
        print_row(size, rounds, bound_us(hosts, size, rate))


def print_row(size, rounds, bound):
    stock, flat = best(rounds, STOCK, size), best(rounds, FLAT, size)
    times = [
        statistics.median(samples[name][size] for samples in rounds)
        for name in [*STOCK, "gpuar", flat]
    ]
    columns = "".join(f"{time:>12.1f}" for time in [*times, bound])
    print(f"{human(size):>8}{columns}", end="  ")
    ratios = [spread([samples["gpuar"][size] / bound for samples in rounds])]
    for name in (stock, flat):
        ratios.append(spread([samples["gpuar"][size] / samples[name][size] for samples in rounds]))
    print("".join(f"{ratio:>19}" for ratio in ratios), f" ({flat})")


def predict(cluster, sizes, rate):
    """What gpuar_sim says of such hosts: {size: {name: µs}}, with the name "gpuar" for its choice."""
    network = {"gigabytes_per_second": bits_per_second(rate) / 8e9}
    with tempfile.TemporaryDirectory() as folder:
        machine, file = Path(folder) / "machine.json", Path(folder) / "results.json"
        machine.write_text(json.dumps({"ranks_per_node": cluster.ranks[0], "network": network}))
        argv = [SIM, "--machine", machine, "--nodes", len(cluster.ranks), "--all", "--json", file]
        argv += ["--sizes", ",".join(map(str, sizes))]
        mpi.succeed(mpi.run(argv, timeout=60), "gpuar_sim")
        cases = json.loads(file.read_text())["results"]
    predicted = {}
    for case in cases:
        times = predicted.setdefault(case["bytes"], {})
        for row in case["rows"]:
            if row["chosen"]:
                times["gpuar"] = row["us"]
            if " with " not in row["algorithm"]:  # flat
                times[row["algorithm"].split(" ")[0]] = row["us"]
    return predicted


def print_predictions(cluster, rounds, rate):
    if len(set(cluster.ranks)) > 1:
        return print("gpuar_sim knows hosts of equally many ranks alone: nothing is predicted")
    sizes = list(rounds[0]["gpuar"])
    predicted = predict(cluster, sizes, rate)
    print("\npredicted by gpuar_sim in µs, from its own constants and the rate; in brackets over measured")
    print("".join([" " * 8, *(f"{name:>22}" for name in GPUAR)]))
    for size in sizes:
        print(f"{human(size):>8}", end="")
        for name in GPUAR:
            measured = statistics.median(samples[name][size] for samples in rounds)
            text = f"{predicted[size][name]:.1f} ({predicted[size][name] / measured:.2f})"
            print(f"{text:>22}", end="")
        print()


def side_by_side(cluster, arguments):
    """Prints the tables of one cluster; returns what was measured."""
    rounds = measure(cluster, arguments)
    print_table(cluster, rounds, arguments.rate)
    print_predictions(cluster, rounds, arguments.rate)
    return {"ranks": cluster.ranks, "rate": arguments.rate, "rounds": rounds}


def conclude(written, arguments):
    print(
        "\nmedian time of a call over the rounds; ratios (smallest–largest) below 1: gpuar is faster;"
        "\nevery element of every size was checked"
    )
    busy = os.getloadavg()[0]
    print(f"the load of this machine of {os.cpu_count()} cores was {busy:.1f} at the end")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(written, indent=1))


def main():
    arguments = parse_arguments()
    on_each = tune if arguments.tune else side_by_side
    found = []
    for shape in arguments.hosts.split(":"):
        ranks = [int(number) for number in shape.split(",")]
        with Cluster(ranks, Veth(arguments.rate)) as cluster:
            found.append(on_each(cluster, arguments))
    if not arguments.tune:
        conclude(found, arguments)


try:
    main()
except (Failure, Unavailable) as why:
    sys.exit(f"bench/cluster: {why}")
