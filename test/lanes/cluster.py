"""gpuar between hosts: namespaces of this machine, cables of limited bandwidth, UCX over TCP."""

import contextlib
import dataclasses
import json
import re
import tempfile
from pathlib import Path

import cluster as clusters
from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, mpi_semantics, require

SHAPES = [[2, 2], [1, 1, 1, 1], [2, 2, 2, 2], [3, 1]]  # ranks per host
PROGRAMS = [
    ("buffers", ["counts=40", "power=15", "every_count", "around_powers_of_two", "hundred_chars"]),
    ("requests", ["calls=50", "many_outstanding_testsome", "many_outstanding_backwards"]),
    ("bits", ["most=1000", "equal_on_every_rank"]),
]
PATH = re.compile(r"^gpuar: host (\S+) to host (\S+): (.*)$", re.MULTILINE)


def lanes():
    return {"cluster": cluster, "cluster_bench": cluster_bench}


@lane(gpuar=True)
def cluster():
    "2 to 4 hosts on this machine: buffers, requests, bits; between hosts TCP over their cables"
    for shape in SHAPES:
        yield name_of(shape), lambda shape=shape: programs(shape)
    yield "hosts that share System V memory use TCP all the same; another path is noticed", shared_memory
    yield "the cables limit 2 MiB on 2 + 2 ranks", cables_limit
    yield "over relays of 1 ms, which are said to limit", relays_limit
    yield "a computation hides the wait for the cables", hides_the_cables


def name_of(shape):
    return f"{len(shape)} hosts, {' + '.join(map(str, shape))} ranks"


@contextlib.contextmanager
def made(*arguments):
    """A cluster, or Skip."""
    built = clusters.Cluster(*arguments)
    try:
        built.__enter__()
    except clusters.Unavailable as why:
        raise Skip(str(why)) from None
    try:
        yield built
    finally:
        built.__exit__()


def run(built, program, operands):
    settings = built.mpirun()
    settings["mca"]["coll_gpuar_verbose"] = 2
    return mpi_semantics.run_program(program, sum(built.ranks), operands, timeout=60, **settings)


def programs(shape):
    with made(shape) as built:
        for program, operands in PROGRAMS:
            before = built.sent()
            result = run(built, program, operands)
            check_layout(built, result)
            check_paths(built, result)
            if max(shape) == 1:
                check_traffic(built, result, before)


def check_layout(built, result):
    """gpuar sees the hosts."""
    few, many = min(built.ranks), max(built.ranks)
    each = f"{many}" if few == many else f"{few} to {many}"
    expected = (
        f"gpuar: MPI_COMM_WORLD: {sum(built.ranks)} ranks on {len(built.ranks)} nodes, "
        f"{each} on each ({', '.join(built.names)})"
    )
    require(expected in result.output, f"no line \"{expected}\"\n{result.tail()}")


def check_paths(built, result):
    """UCX says of its endpoints: between hosts nothing but TCP over the cables, within none of it."""
    paths = PATH.findall(result.output)
    across = [path for path in paths if path[0] != path[1]]
    for here, there, transports in paths:
        kinds = transports.split(", ")
        right = all(kind == "tcp/eth0" for kind in kinds)
        if here == there:
            right = not any(kind.startswith("tcp/") for kind in kinds)
        require(right, f"UCX goes from {here} to {there} by {transports}\n{result.tail()}")
    silent = set(built.names) - {here for here, _, _ in across}
    require(not silent, f"no path to other hosts from {sorted(silent)}\n{result.tail()}")


def check_traffic(built, result, before):
    """With one rank on each host, all that UCX was handed has gone over the cables."""
    handed = sum(count["ucx_bytes"] for count in mpi.counters(result.output).values())
    sent = sum(built.sent().values()) - sum(before.values())
    require(sent >= handed, f"{handed} bytes were handed to UCX, {sent} went over the cables")


def shared_memory():
    """To other hosts endpoints are watched for errors, and UCX watches none of shared memory."""
    with made([1, 1], clusters.Veth(), ("net", "uts", "mount")) as built:
        result = run(built, "buffers", ["hundred_chars"])
        check_paths(built, result)
        shared = dataclasses.replace(result, output=result.output.replace("tcp/eth0", "sysv/memory"))
        try:
            check_paths(built, shared)
        except Failure:
            return
    raise Failure(f"not noticed\n{shared.tail()}")


def cables_limit():
    with made([2, 2]) as built:
        result = run(built, "latency", ["two_mebibytes"])
    took = float(re.search(r"^MICROSECONDS allreduce (\S+)", result.output, re.MULTILINE)[1]) / 1000
    bound = 2 * 2**20 * 8 / 1e9 * 1000  # each host's sum must reach the other one
    print(f"    2 MiB took {took:.1f} ms; the cables allow {bound:.1f} ms ({built.link})")
    # The buckets let a little more through at the beginning.
    require(took >= 0.95 * bound, f"2 MiB took {took:.1f} ms, less than {bound:.1f} ms")


def hides_the_cables():
    """4 MiB on one rank of each of two hosts. Where nothing is hidden, or MPI works only within its
    calls, call and computation take as long as one after the other."""
    ways = {
        "gpuar, a progress thread": ("gpuar", {"coll_gpuar_progress_thread": 1}, 0),
        "gpuar, MPI_Test": ("gpuar", {}, 200),
        "libnbc, MPI_Test": ("stock", {}, 200),
    }
    with made([1, 1]) as built:
        found = {name: hidden_share(built, *way) for name, way in ways.items()}
    shares = ", ".join(f"{name}: {share:.0%}" for name, share in found.items())
    print(f"    hidden of 4 MiB: {shares} ({built.link})")
    require(found["gpuar, a progress thread"] >= 0.5, f"hidden: {shares}")


def hidden_share(built, component, mca, tests):
    settings = built.mpirun()
    settings["mca"] |= mca
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        argv = [BUILD / "bench" / "gpuar_bench", "--sizes", "4M", "--overlap", tests]
        argv += ["--json", file]
        if component == "gpuar":
            mpi.served(2, argv, timeout=60, **settings)
        else:
            mpi.succeed(mpi.mpirun(2, argv, component, timeout=60, **settings))
        (row,) = json.loads(file.read_text())["results"]
    served_by = "gpuar" if component == "gpuar" else "other"
    require(row["served_by"] == served_by, f"served by {row['served_by']}")
    return row["hidden"]


def relays_limit():
    """Latency shows, and gpuar_bench --compare-nodes finds where the time goes."""
    delay = 0.001
    link = clusters.Relayed(delay, "100mbit")
    with made([2, 2], link) as built, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        argv = [BUILD / "bench" / "gpuar_bench", "--sizes", "8,64K", "--form", "blocking"]
        argv += ["--compare-nodes", "--iterations", 20, "--json", file]
        result = mpi.served(4, argv, timeout=60, **built.mpirun())
        document = json.loads(file.read_text())
    took = {row["part"]: row["min_us"] for row in document["results"] if row["bytes"] == 8}
    print(f"    8 bytes took {took} us ({built.link})")
    # From one host to another is over two cables.
    require(took["across"] >= 2e6 * delay, f"faster than the links: {took}\n{result.tail()}")
    require(took["all"] >= 2e6 * delay, f"faster than the links: {took}\n{result.tail()}")
    verdicts = [entry["verdict"] for entry in document["verdicts"]]
    right = all(verdict.startswith("the network limits") for verdict in verdicts)
    require(right, f"verdicts {verdicts}\n{result.tail()}")


@lane()
def cluster_bench():
    "bench/cluster: a row per size for each cluster, what was predicted; --tune: the regret of choices"
    yield "side by side", side_by_side
    yield "--tune", tuned


def on_two_hosts(*options):
    with made([1, 1]):
        pass  # or Skip
    argv = [ROOT / "bench" / "cluster", "--hosts", "1,1", "--sizes", "8,64K", "--rounds", 1]
    result = mpi.run([*argv, "--min-time", "0.002", *options], timeout=120, cwd="/")
    return mpi.succeed(result, "bench/cluster")


def side_by_side():
    result = on_two_hosts()
    require("2 hosts, 1 + 1 ranks; links: veth" in result.output, result.tail())
    for row in ("8 B", "64 KiB"):
        found = re.findall(rf"^ *{row} .*$", result.output, re.M)
        require(len(found) == 2, f"no table and no prediction of {row}\n{result.tail()}")
        require(len(re.findall(r" \d+\.\d \(\d+\.\d\d\)", found[1])) == 7, f"{found[1]}")


def tuned():
    result = on_two_hosts("--tune")
    require("gpuar_tune: 2 ranks on 2 nodes" in result.output, result.tail())
    require(re.search(r"^regret of the cost model: median \d", result.output, re.M), result.tail())
