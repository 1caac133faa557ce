"""The benchmark itself."""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from lanes import BUILD, ROOT, Skip, lane, mpi, on_device, require

sys.path.append(str(ROOT / "bench"))
from side_by_side import pairs_of

BENCH = BUILD / "bench" / "gpuar_bench"
FORMS = ("blocking", "nonblocking", "persistent")


def lanes():
    return {"bench": bench, "bench_tools": bench_tools}


@lane(gpuar=True)
def bench():
    "gpuar_bench in all forms, operations and types: results right, served by gpuar"
    for op, type_name in (("sum", "float"), ("prod", "double"), ("max", "int8"), ("bxor", "int64")):
        yield f"{op} of {type_name}", partial(every_line_is_gpuar, op, type_name)


def every_line_is_gpuar(op, type_name):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        argv = [BENCH, "--sizes", "8:4M:8", "--iterations", 6, "--json", file]
        mpi.served(2, [*argv, "--op", op, "--type", type_name])
        document = json.loads(file.read_text())
    forms = {entry["form"] for entry in document["results"]}
    require(forms == set(FORMS), f"forms in the JSON file: {forms}")
    others = [entry for entry in document["results"] if entry["served_by"] != "gpuar"]
    require(not others, f"not served by gpuar: {others}")
    for entry in document["results"]:
        readings = entry["before_ns"], entry["after_ns"]
        require(all(10 < ns < 1e9 for ns in readings), f"no distance of cores: {entry}")
        busbw = entry["algbw"] * 2 * (2 - 1) / 2
        require(abs(entry["busbw"] - busbw) < 1e-9, f"busbw of 2 ranks is algbw: {entry}")


@lane()
def bench_tools():
    "stock runs say so, usage errors say what is wrong, bench/run prints a table per form"
    yield "stock is served by other", stock
    for option, value, text in (
        ("--sizes", "8,x", "'x' is not a size"),
        ("--sizes", "9:3", "is not MIN:MAX"),
        ("--sizes", "8,3", "3 bytes are less than one float, which has 4"),
        ("--sizes", "5", "5 bytes are no whole number of float, which has 4"),
        ("--sizes", "-8", "'-8' is not a size"),
        ("--sizes", "99999999999G", "is more than 1024 TiB"),
        ("--iterations", "-3", "--iterations"),
        ("--iterations", "0", "--iterations"),
        ("--iterations", "99999999999999999999", "--iterations"),
        ("--warmup", "-1", "--warmup"),
        ("--json", "/nowhere/x.json", "cannot write /nowhere/x.json"),
        ("--op", "band", "MPI does not define band on float"),
        ("--node-size", "2", "--node-size requires --compare-nodes"),
    ):
        yield f"{option} {value}", partial(refused, option, value, text)
    yield "--stage on host memory", staged_host_memory
    yield "--memory device without a driver", no_driver
    for kind in ("pinned", "device", "managed"):
        yield f"--memory {kind}, as it is and staged", partial(memory, kind)
    yield "--compare-nodes times nodes, what is between them, and all", compare_nodes
    yield "--compare-nodes on one node", one_node
    yield "--overlap: a call, a computation as long, and both", overlap
    yield "bench/run", side_by_side
    yield "bench/run pairs samples of equal distance", pairing_of_samples


def stock():
    argv = [BENCH, "--sizes", "8,64K", "--iterations", 3]
    result = mpi.succeed(mpi.mpirun(2, argv, "stock"))
    require("gpuar\n" not in result.output and "other\n" in result.output, result.output)


def refused(option, value, text):
    answer = mpi.run([BENCH, option, value], timeout=60)
    require(answer.status != 0 and text in answer.output, f"status {answer.status}\n{answer.tail()}")


def staged_host_memory():
    answer = mpi.run([BENCH, "--stage"], timeout=60)
    require(answer.status != 0 and "wants --memory device" in answer.output, answer.tail())


def no_driver():
    answer = mpi.mpirun(1, [BENCH, "--memory", "device", "--sizes", "8"], "stock")
    if answer.status == 0 or "sees no GPU" in answer.output:
        raise Skip("this machine has a CUDA driver")
    require("no CUDA driver on this machine" in answer.output, answer.tail())


def memory(kind):
    """On the simulated driver, in all forms, every element checked."""
    machine = on_device.staged()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        argv = [BENCH, "--memory", kind, "--sizes", "8,1M", "--iterations", 2, "--json", file]
        result = mpi.served(2, argv, env=machine.environment(None, {}))
        document = json.loads(file.read_text())
        for rank, count in mpi.counters(result.output).items():
            on_gpu = kind != "pinned"
            require((count["device_calls"] > 0) == on_gpu, f"{kind}: rank {rank} counts {count}")
        require((document["memory"], document["path"]) == (kind, "direct"), f"says {document}")
        require({row["served_by"] for row in document["results"]} == {"gpuar"}, f"{document}")
        if kind == "pinned":
            return
        argv = [*argv, "--stage"]
        mpi.succeed(mpi.mpirun(2, argv, "stock", env=machine.environment(None, {})))
        require(json.loads(file.read_text())["path"] == "through host", file.read_text())


def compare_nodes():
    """On 5 ranks as nodes of 2, 2 and 1."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        argv = [BENCH, "--sizes", "8,64K", "--iterations", 3, "--form", "blocking,persistent"]
        argv += ["--compare-nodes", "--node-size", 2, "--json", file]
        result = mpi.served(5, argv)
        document = json.loads(file.read_text())
    rows = [(row["form"], row["bytes"], row["part"], row["ranks"]) for row in document["results"]]
    parts = [("within", 2), ("across", 3), ("all", 5)]
    shapes = [(form, size) for form in ("blocking", "persistent") for size in (8, 65536)]
    expected = [(*shape, *part) for shape in shapes for part in parts]
    require(rows == expected, f"rows {rows}, expected {expected}")
    require({row["served_by"] for row in document["results"]} == {"gpuar"}, f"{document}")
    verdicts = [(verdict["form"], verdict["bytes"]) for verdict in document["verdicts"]]
    require(verdicts == shapes, f"verdicts on {verdicts}\n{result.tail()}")


def overlap():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        result = mpi.served(2, [BENCH, "--sizes", "8K,1M", "--overlap", 5, "--json", file])
        rows = json.loads(file.read_text())["results"]
    require([row["bytes"] for row in rows] == [8192, 1 << 20], f"{rows}")
    for row in rows:
        require(row["served_by"] == "gpuar" and 0 <= row["hidden"] <= 1, f"{row}")
        require(0 < row["compute_us"] < 20 * row["call_us"], f"{row}\n{result.tail()}")
        not_hidden = (row["both_us"] - row["compute_us"]) / row["call_us"]
        require(row["hidden"] == min(max(1 - not_hidden, 0), 1), f"{row}")


def one_node():
    argv = [BENCH, "--sizes", "8", "--compare-nodes"]
    answer = mpi.mpirun(2, argv, "stock")
    require(answer.status != 0 and "nothing to compare" in answer.output, answer.tail())


def side_by_side():
    sizes = "8,2K,256K"
    argv = [ROOT / "bench" / "run", "--rounds", 1, "--sizes", sizes, "--min-time", "0.002"]
    result = mpi.succeed(mpi.run(argv, timeout=300, cwd="/"), "bench/run")
    for form in FORMS:
        require(f"\n{form}\n" in result.output, f"no table of {form}\n{result.tail()}")
    rows = [line for line in result.output.splitlines() if line.endswith("  gpuar")]
    expected = len(FORMS) * len(sizes.split(","))
    require(len(rows) == expected, f"{len(rows)} rows served by gpuar\n{result.tail()}")


def pairing_of_samples():
    """Two rounds in which the cores moved between the samples: gpuar takes a third of the time."""

    def sampled(us, before, after):
        return {("blocking", 8): {"min_us": us, "before_ns": before, "after_ns": after}}

    near, far, key = (100, 110), (400, 420), ("blocking", 8)
    moved = [
        {"gpuar": sampled(1.0, *near), "stock": sampled(9.0, *far)},
        {"gpuar": sampled(3.0, *far), "stock": sampled(3.0, *near)},
    ]
    pairs, alike = pairs_of(moved, key)
    require(alike and sorted(pairs) == [(1.0, 3.0), (3.0, 9.0)], f"{pairs}")
    never = [{"gpuar": sampled(1.0, *near), "stock": sampled(3.0, *far)}]
    pairs, alike = pairs_of(never, key)
    require(not alike and pairs == [(1.0, 3.0)], f"{pairs}, though at no equal distance")
