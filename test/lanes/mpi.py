"""Runs MPI programs with gpuar or with stock Open MPI, bounded in time, and reads gpuar's counters."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lanes import BUILD, Failure, require

# More ranks than cores: from 5.0 on the old word is deprecated, and says so.
OVERSUBSCRIBE = {False: ["--oversubscribe"], True: ["--map-by", ":oversubscribe"]}
COUNTERS = re.compile(r"gpuar: counters: rank (\d+): (.*)")


class NotServed(Failure):
    """The counters say that the calls did not go through gpuar as expected."""


@dataclass
class Result:
    status: int
    output: str  # standard output and error of all ranks
    seconds: float

    def tail(self, lines=30):
        return "\n".join(self.output.splitlines()[-lines:])


def run(argv, *, timeout, env=None, cwd=None):
    """Runs a command in a session of its own and returns its Result. On a timeout everything left
    of that session is ended and the test fails."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            end_session(process)
        output.seek(0)
        result = Result(process.returncode, output.read(), time.monotonic() - start)
    if timed_out:
        words = " ".join(str(word) for word in argv)
        raise Failure(f"no end after {timeout:.0f} s: {words}\n{result.tail()}")
    return result


def end_session(process):
    """Ends what is left of the session: mpirun first, so that it ends its ranks, then the rest (a
    rank has a process group of its own, but stays in the session)."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
    process.wait()


@cache
def build_option(name):
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == name)


@cache
def tool(name):
    """A tool of the Open MPI that gpuar was built for."""
    prefix = build_option("openmpi")
    candidates = [f"{prefix}/bin/{name}"] if prefix else [f"{name}.openmpi", name]
    path = next(filter(None, map(shutil.which, candidates)), None)
    require(path, f"{name} of Open MPI is not installed")
    return path


@cache
def version():
    """The Open MPI that gpuar was built for, as (major, minor)."""
    answer = run([tool("mpicc"), "--showme:version"], timeout=60).output
    major, minor = re.search(r"Open MPI (\d+)\.(\d+)", answer).groups()
    return int(major), int(minor)


@cache
def stock_component_dir():
    answer = run([tool("ompi_info"), "--parsable", "--path", "pkglibdir"], timeout=60).output
    return answer.strip().split(":")[-1]


def environment(component, components=BUILD / "components"):
    """The environment of a run: nothing of the caller's own MPI settings, and for "gpuar" the
    folder with the built component beside Open MPI's own."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMPI_", "PMIX_", "PMI_"))
    }
    if component == "gpuar":
        env["OMPI_MCA_mca_base_component_path"] = f"{components}:{stock_component_dir()}"
        if version() >= (5, 0):  # or PMIx takes the folders for its own, and complains of each file
            env["PMIX_MCA_mca_base_component_path"] = ""
    return env


# Set by the lane mutant_fallback: parameters that every run with gpuar gets besides.
extra_mca = {}


def mpirun(
    np, argv, component="gpuar", mca=None, env=None, timeout=120, options=(), cwd=None, prefix=()
):
    """Runs `argv` on `np` ranks and returns its Result, whatever its exit status. With component
    "gpuar" the built component is selected as a user would, by `--mca coll gpuar`, and prints its
    counters; with "stock" Open MPI is as installed. A value of None in `mca` drops a parameter. The
    words of `prefix` run mpirun itself: on another host, say."""
    parameters = {}
    if component == "gpuar":
        parameters = {"coll": "gpuar", "coll_gpuar_counters": 1} | extra_mca
    cores = len(os.sched_getaffinity(0))
    words = [tool("mpirun"), "-n", np, *OVERSUBSCRIBE[version() >= (5, 0)]]
    if np > cores:
        parameters["mpi_yield_when_idle"] = 1
        words += [] if "--bind-to" in options else ["--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    for name, value in (parameters | (mca or {})).items():
        if value is not None:
            words += ["--mca", name, value]
    return run(
        [*prefix, *words, *options, *argv],
        timeout=timeout,
        env=environment(component) | {name: str(value) for name, value in (env or {}).items()},
        cwd=cwd,
    )


def succeed(result, what="mpirun"):
    """Fails the test, with the tail of the output, unless the run ended well."""
    require(result.status == 0, f"{what} ended with status {result.status}\n{result.tail()}")
    return result


def counters(output):
    """What each rank counted: {rank: {"blocking": N, …}}, from the lines printed at finalize."""
    ranks = {}
    for rank, fields in COUNTERS.findall(output):
        pairs = (field.split("=") for field in fields.split())
        ranks[int(rank)] = {name: int(value) for name, value in pairs}
    return ranks


def check_served(np, result, fallbacks=0):
    """Fails the test unless every rank says that gpuar served calls over UCX and declined as many
    communicators as expected. Returns the counters."""
    ranks = counters(result.output)
    if sorted(ranks) != list(range(np)):
        raise NotServed(f"counters of ranks {sorted(ranks)} instead of {np} ranks\n{result.tail()}")
    for rank, count in sorted(ranks.items()):
        served = count["blocking"] + count["nonblocking"] + count["persistent"]
        if not served or not count["ucx_bytes"] or count["fallbacks"] != fallbacks:
            raise NotServed(
                f"rank {rank} served {served} calls, sent {count['ucx_bytes']} bytes over UCX and "
                f"declined {count['fallbacks']} communicators (expected {fallbacks})"
                f"\n{result.tail()}"
            )
    return ranks


def served(np, argv, *, fallbacks=0, **arguments):
    """mpirun with gpuar that must end well and must have been served. The usual test."""
    result = succeed(mpirun(np, argv, "gpuar", **arguments))
    check_served(np, result, fallbacks)
    return result
