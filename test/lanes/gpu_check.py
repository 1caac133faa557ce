"""bench/gpu/check on the simulated driver: it must work at its first try where there is a GPU."""

import json
import tempfile
from functools import partial
from pathlib import Path

from lanes import ROOT, Skip, lane, mpi, on_device, require

CHECK = ROOT / "bench" / "gpu" / "check"
PARTS = ("machine", "direct", "reductions", "programs", "kernels", "times")


def lanes():
    return {"gpu_check": gpu_check}


@lane()
def gpu_check():
    "bench/gpu/check to its end on the simulated driver: on one machine, at a site, with a defect"
    yield "one machine, from a bundle", from_bundle
    yield "a site with four GPUs", site
    yield "a gpuar that goes through the host is found out", partial(
        finds, "direct", "went through the host", ["--mca", "coll_gpuar_test_fault", "through_host"]
    )
    yield "a gpuar that serves nothing is found out", partial(
        finds, "machine", "ended with status", ["--mca", "coll_gpuar_test_fault", "decline"]
    )
    yield "a driver that refuses to open memory of others is found out", opening_refused
    yield "no bundle", no_bundle


def check(folder, *options, env=None):
    argv = [CHECK, "--simulated", "--output", folder / "out", *options]
    return mpi.run(argv, timeout=240, env=env or mpi.environment("stock"))


def passes(folder, result):
    mpi.succeed(result, "bench/gpu/check")
    require(result.output.count("\nFAIL") == 0, result.output)
    document = json.loads((folder / "out" / "results.json").read_text())
    lines = document["lines"]
    require(len(lines) > 15, f"only {len(lines)} lines\n{result.output}")
    for part in PARTS:
        section = result.output.partition(f"--- {part}: ")[2].partition("\n--- ")[0]
        require("\nPASS" in section, f"nothing of {part} passes\n{result.output}")
    rows = [rows for name, rows in document["figures"].items() if name.startswith("allreduce")]
    require(rows and all(row["ratio"] > 0 for row in rows[0]), f"no ratios: {rows}")


def lacking():
    if on_device.lacks():
        raise Skip(on_device.lacks())
    libraries, why = on_device.cuda_aware_ucx()
    if not libraries:
        raise Skip(why)
    return libraries


def from_bundle():
    lacking()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = folder / "bundle"
        prepare = [ROOT / "bench" / "gpu" / "prepare", "--output", bundle]
        mpi.succeed(mpi.run(prepare, timeout=120), "bench/gpu/prepare")
        moved = bundle.rename(folder / "moved")
        result = check(folder, "--bundle", moved)
        passes(folder, result)
        require(f"({moved}/ucx/" in result.output, f"another UCX than the bundle's\n{result.output}")


def site():
    """With a UCX that the caller's environment brings, as a site's module does."""
    libraries = lacking()
    with tempfile.TemporaryDirectory() as name:
        env = mpi.environment("stock") | {"LD_LIBRARY_PATH": str(libraries)}
        result = check(Path(name), "--site", env=env)
        passes(Path(name), result)
        require("; 4 GPUs here" in result.output, f"4 GPUs were simulated\n{result.output}")
        require(" 4 ranks" in result.output, f"not a rank for each GPU\n{result.output}")


def opening_refused():
    """Only a UCX with CUDA opens any."""
    environment = {"LD_LIBRARY_PATH": str(lacking()), "SIMGPU_IPC": "open"}
    finds("direct", "rank 0 cannot open device memory of rank 1", environment=environment)


def finds(part, words, options=(), environment=None):
    if on_device.lacks():
        raise Skip(on_device.lacks())
    with tempfile.TemporaryDirectory() as name:
        env = mpi.environment("stock") | (environment or {})
        result = check(Path(name), "--site", "--ranks", 2, "--only", part, *options, env=env)
    require(result.status == 1, f"status {result.status}\n{result.output}")
    found = [line for line in result.output.splitlines() if line.startswith("FAIL")]
    require(any(words in line for line in found), f"it fails otherwise\n{result.output}")


def no_bundle():
    with tempfile.TemporaryDirectory() as name:
        argv = [CHECK, "--bundle", Path(name) / "none", "--output", Path(name) / "out"]
        answer = mpi.run(argv, timeout=60)
    require(answer.status == 1 and "bench/gpu/prepare" in answer.output, answer.output)
