"""The benchmark itself."""

import json
import tempfile
from functools import partial
from pathlib import Path

from lanes import BUILD, ROOT, lane, mpi, require

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
        busbw = entry["algbw"] * 2 * (2 - 1) / 2
        require(abs(entry["busbw"] - busbw) < 1e-9, f"busbw of 2 ranks is algbw: {entry}")


@lane()
def bench_tools():
    "stock runs say so, usage errors say what is wrong, bench/run prints a table per form"
    yield "stock is served by other", stock
    for option, value, text in (
        ("--sizes", "8,x", "'x' is not a size"),
        ("--sizes", "9:3", "is not MIN:MAX"),
        ("--op", "band", "MPI does not define band on float"),
    ):
        yield f"{option} {value}", partial(refused, option, value, text)
    yield "bench/run", side_by_side


def stock():
    argv = [BENCH, "--sizes", "8,64K", "--iterations", 3]
    result = mpi.succeed(mpi.mpirun(2, argv, "stock"))
    require("gpuar\n" not in result.output and "other\n" in result.output, result.output)


def refused(option, value, text):
    answer = mpi.run([BENCH, option, value], timeout=60)
    require(answer.status != 0 and text in answer.output, f"status {answer.status}\n{answer.tail()}")


def side_by_side():
    sizes = "8,2K,256K"
    argv = [ROOT / "bench" / "run", "--rounds", 1, "--sizes", sizes, "--min-time", "0.002"]
    result = mpi.succeed(mpi.run(argv, timeout=300, cwd="/"), "bench/run")
    for form in FORMS:
        require(f"\n{form}\n" in result.output, f"no table of {form}\n{result.tail()}")
    rows = [line for line in result.output.splitlines() if line.endswith("  gpuar")]
    expected = len(FORMS) * len(sizes.split(","))
    require(len(rows) == expected, f"{len(rows)} rows served by gpuar\n{result.tail()}")
