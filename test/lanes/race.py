"""bench/race: what it compares, what it leaves out, and that it notices a wrong result."""

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lanes import ROOT, lane, mpi, require

sys.path.append(str(ROOT / "bench"))

from racing import cliffs, pairing, report, starting, table
from racing.entrants import AGAIN, BOUND, GPUAR, Entrant, Setting, first
from racing.homes import NativeOpenMPI
from racing.field import Field, Matrix
from racing.job import Out

OURS = f"{GPUAR}: default"
WITH_GPUAR = Setting(mca={"coll": "gpuar"})


def lanes():
    return {"race": race}


@lane()
def race():
    "bench/race: pairs of equal state alone, results checked, the cap, the tables, a short race"
    yield "samples of unequal state are not paired", unequal_states
    yield "a ratio is the median over the pairs", medians
    yield "the best peer, and its best setting", best_peer
    yield "cliffs, and none where there is none", jumps
    yield "a peer that is slow: fewer rounds, then no larger sizes", cap
    yield "of a peer's settings the default and the fastest run on", settings
    yield "a job that fails leaves, and is started anew for the next form", failing
    yield "a wrong result is noticed", wrong_result
    yield "gpuar that does not serve is noticed", not_served
    yield "a peer that cannot start is out, with the reason", no_start
    yield "a component that Open MPI does not choose is out", not_chosen
    yield "what starting takes: differences within a round", differences_at_start
    yield "each kind of job starts, and gpuar serves its own", starts
    yield "bench/race on two sizes", short_race


def sample(entrant, us, number=0, before=100, after=100, size=8):
    return {
        "round": number,
        "at": 0,
        "entrant": entrant,
        "peer": entrant.partition(":")[0],
        "bytes": size,
        "us": us,
        "before": before,
        "after": after,
        "preempted": 0,
        "seconds": 0.1,
    }


def unequal_states():
    near, far = {"before": 25, "after": 26}, {"before": 150, "after": 155}
    alike = [sample(OURS, 1, **near), sample("b: default", 2, **near)]
    require(pairing.ratio(alike, OURS, "b: default").median == 0.5, "a pair of equal state")
    for unlike in (far, {"before": 25, "after": 150}, {"before": 150, "after": 25}):
        mixed = [sample(OURS, 1, **near), sample("b: default", 2, **unlike)]
        require(pairing.ratio(mixed, OURS, "b: default") is None, f"near is paired with {unlike}")
    turns = [sample(OURS, us, **near) | {"at": at} for us, at in ((1, 0), (3, 4), (9, 8))]
    turns[1] |= far
    later = sample("b: default", 3, **near) | {"at": 5}
    found = pairing.pairs([*turns, later], OURS, "b: default")
    require(found == [(turns[2], later)], f"not the nearest turn of equal state: {found}")
    others = [sample(OURS, 1, 0, **near), sample("b: default", 2, 1, **near)]
    require(pairing.ratio(others, OURS, "b: default") is None, "pairs of different rounds")
    states = [pairing.state(sample(OURS, 1, **cores)) for cores in (near, far)]
    require(states == [pairing.NEAR, pairing.FAR], f"called {states}")
    changing = pairing.state(sample(OURS, 1, before=25, after=150))
    require(changing == pairing.CHANGING, f"called {changing}")


def medians():
    samples = [sample(OURS, 10, number) for number in range(3)]
    samples += [sample("b: default", us, number) for number, us in enumerate((5, 20, 100))]
    samples.append(sample("b: default", 0.1, 3))
    expected = pairing.Ratio(0.5, 0.1, 2, 3)
    found = pairing.ratio(samples, OURS, "b: default")
    require(found == expected, f"{found} instead of {expected}")


def best_peer():
    times = {OURS: 4, "b: default": 8, "b: fast": 5, "c: default": 6, f"{BOUND}: default": 1}
    times[f"{AGAIN}: default"] = 4
    samples = [
        sample(name, us, number, size=1 << 20) for number in range(3) for name, us in times.items()
    ]
    samples.append(sample("b: disturbed", 0.04, size=1 << 20))
    matrix = {"op": "sum", "type": "float", "ranks": 2, "where": "one host"}
    result = {"matrix": matrix, "samples": {"blocking": {str(1 << 20): samples}}}
    (made,) = table.tables(result)
    default, best, setting = made.rows[0].peers["b"]
    found = (default.median, best.median, setting, made.rows[0].best, made.peers)
    require(found == (0.5, 0.8, "fast", "b", ["b", "c"]), f"found {found}")
    text = table.text(made)
    for part in ("1 MiB", "0.50 0.80", "0.67 0.67", "b, fast", "0.80 (0.80–0.80)", "25 %"):
        require(part in text, f"'{part}' is not in the table\n{text}")
    require("geometric mean 0.80 of the best peer's time, worst 0.80 at 1 MiB (b)" in text, text)


def jumps():
    sizes = [4096, 8188, 8192, 8196, 16384]
    smooth = {size: 1 + size / 4096 for size in sizes}

    def found(times):
        samples = [
            sample("-", us, number, size=size) for number in range(3) for size, us in times.items()
        ]
        return cliffs.sentences({"blocking": samples})

    require(found(smooth)[0].startswith("no cliff at 5 sizes"), f"{found(smooth)}")
    lines = found(smooth | {8196: 6})
    require(len(lines) == 1, f"{lines}")
    require("8196 B: 2.0 times what 8 KiB" in lines[0], f"{lines}")
    around = cliffs.sizes_around([4, 8], 4)
    require(around == [4, 8, 12], f"around 4 and 8 lie {around}")


@dataclass
class Cores:
    """A probe that always says the same."""

    ns: float = 100

    def latency(self):
        return self.ns


class Pretended:
    """A home whose jobs take a second for each microsecond; `fails`: sizes at which they die."""

    mpi = "pretended"

    def __init__(self, times, clock, fails=()):
        self.times, self.clock, self.fails = times, clock, fails
        self.asked, self.jobs = [], 0

    def job(self, _name, setting, _matrix, _folder):
        self.jobs += 1
        return PretendedJob(self, setting)


@dataclass
class PretendedJob:
    home: Pretended
    setting: Setting
    mpi: str = "pretended"

    def ask(self, form, _type, _op, size, _seconds, _warmup):
        if size in self.home.fails:
            raise Out("died")
        us = self.home.times[self.setting.name]
        self.home.asked.append((form, size, self.setting.name))
        self.home.clock.now += us
        return {
            "min_us": us,
            "median_us": us,
            "preempted": 0,
            "gpuar": self.setting.mca.get("coll") == "gpuar",
        }

    def end(self):
        pass


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


def pretend(times, fails=(), settings=(Setting(),), sizes=(8, 16, 32), **matrix):
    """Runs gpuar, which takes 0.1 s for a sample, against a peer that takes `times` by setting."""
    clock = Clock()
    ours, theirs = Pretended({"default": 0.1}, clock), Pretended(times, clock, fails)
    entrants = [
        Entrant(GPUAR, WITH_GPUAR, ours),
        *(Entrant("b", setting, theirs) for setting in settings),
    ]
    matrix = Matrix(2, sizes, **matrix)
    with Field(matrix, entrants, Cores(), None, lambda text: None, clock.monotonic) as field:
        return field.run(), theirs


def cap():
    result, theirs = pretend({"default": 0.8}, forms=("blocking",), rounds=5, cap=1.5)
    runs = [size for _, size, _ in theirs.asked]
    require(runs == [8, 8, 16, 16, 32, 32], f"two rounds of each size are within the cap: {runs}")
    ours = [s for s in result["samples"]["blocking"][8] if s["peer"] == GPUAR]
    require(len(ours) == 2, f"gpuar ran {len(ours)} rounds, two of them beside nobody")
    result, theirs = pretend({"default": 2}, forms=("blocking",), rounds=5, cap=1.5)
    require(theirs.asked == [("blocking", 8, "default")], f"{theirs.asked}")
    require("longer than the cap of 1.5 s" in result["out"][0]["why"], f"{result['out']}")


def settings():
    three = [Setting(), Setting("fast", {"x": 1}), Setting("slow", {"x": 2})]
    times = {"default": 0.2, "fast": 0.1, "slow": 0.3}
    _, theirs = pretend(times, settings=three, forms=("blocking",), rounds=2)
    runs = [name for _, size, name in theirs.asked if size == 8]
    require(runs == ["default", "fast", "slow", "default", "fast"], f"ran {runs}")
    large = (1 << 20, 4 << 20, 8 << 20)
    _, theirs = pretend(times, settings=three, sizes=large, forms=("blocking",), rounds=1)
    runs = [[name for _, size, name in theirs.asked if size == asked] for asked in large]
    expected = [list(times)] * 2 + [["default", "fast"]]
    require(runs == expected, f"beyond 4 MiB what was best before runs alone: {runs}")


def failing():
    result, theirs = pretend(
        {"default": 0.1}, fails=(16,), forms=("blocking", "nonblocking"), rounds=1
    )
    asked = [(form, size) for form, size, _ in theirs.asked]
    require(asked == [("blocking", 8), ("nonblocking", 8)], f"{asked}")
    require(theirs.jobs == 2, f"{theirs.jobs} jobs were started")
    why = [(entry["entrant"], entry["form"], entry["why"]) for entry in result["out"]]
    require(("b: default", "blocking", "died") in why, f"{why}")


def run_field(entrant, sizes=(8, 4096)):
    """A real job of this entrant alone."""
    matrix = Matrix(2, sizes, forms=("blocking",), rounds=1, seconds=0.001)
    with tempfile.TemporaryDirectory() as folder:
        with Field(matrix, [entrant], Cores(), folder, lambda text: None) as field:
            return field.run()


SPOILED = """
#include <mpi.h>
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  int code = PMPI_Allreduce(in, out, count, type, op, comm);
  if (count > 1000) ((char*)out)[4 * 777] ^= 1;
  return code;
}
"""


def wrong_result():
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "spoiled.c", Path(folder) / "spoiled.so"
        source.write_text(SPOILED)
        build = [mpi.tool("mpicc"), "-shared", "-fPIC", source, "-o", library]
        mpi.succeed(mpi.run(build, timeout=60), "mpicc")
        setting = Setting(env={"LD_PRELOAD": str(library)})
        result = run_field(Entrant("spoiled", setting, NativeOpenMPI(), ("blocking",)))
    require(len(result["samples"]["blocking"][8]) == 1, f"8 bytes are right: {result}")
    require(not result["samples"]["blocking"][4096], f"4 KiB are wrong: {result}")
    require("wrong result in element 777" in result["out"][0]["why"], f"{result['out']}")


def not_served():
    setting = Setting(mca=WITH_GPUAR.mca | {"coll_gpuar_test_fault": "decline"})
    result = run_field(Entrant(GPUAR, setting, NativeOpenMPI()))
    failed = report.failures({"matrices": [result]})
    require("not served by gpuar" in failed, f"'{failed}', and {result}")
    result = run_field(Entrant(GPUAR, WITH_GPUAR, NativeOpenMPI()))
    require(not report.failures({"matrices": [result]}), f"{result['out']}")


def no_start():
    setting = Setting(mca={"pml": "there_is_none"})
    result = run_field(Entrant("b", setting, NativeOpenMPI()))
    require("does not start" in result["out"][0]["why"], f"{result['out']}")


def not_chosen():
    """Open MPI itself would go on with another one, and its times would stand under a wrong name."""
    for name, why in (("sm", []), ("han", ["does not choose it: "])):
        result = run_field(Entrant(name, first(name), NativeOpenMPI(), ("blocking",)), (8,))
        reasons = [entry["why"] for entry in result["out"]]
        as_expected = len(reasons) == len(why) and all(map(str.__contains__, reasons, why))
        require(as_expected, f"{name} on one host: {reasons}")


def differences_at_start():
    times = {"stock": [300, 500, 310, 320], "UCX": [310, 510, 320, 330], "gpuar": [312, 514, 322, 332]}
    said = starting.sentence(times)
    require("UCX besides +10.0 ms, gpuar beyond that +2.0 ms (half of 4 rounds: +2.0 to" in said, said)


def starts():
    times = starting.measure(rounds=1)
    require(all(found[0] > 1 for found in times.values()), f"{times}")
    mpi.served(2, [starting.STARTER])
    document = {"matrices": [], "skipped": [], "processor": "this", "load": 0.0, "start": times}
    require("gpuar beyond that" in report.text(document), report.text(document))


def short_race():
    with tempfile.TemporaryDirectory() as folder:
        file, picture = Path(folder) / "race.json", Path(folder) / "race.svg"
        argv = [
            ROOT / "bench" / "race",
            "--quick",
            "--peers",
            "sm,libnbc 4.1",
            "--sizes",
            "8,128K",
        ]
        argv += ["--rounds", 2, "--seconds", "0.002", "--cap", 60, "--json", file, "--svg", picture]
        env = os.environ | {"XDG_CACHE_HOME": folder}  # no roots of other releases
        result = mpi.succeed(mpi.run(argv, timeout=300, cwd="/", env=env), "bench/race")
        document = json.loads(file.read_text())
        require("<svg" in picture.read_text(), "no picture")
    (matrix,) = document["matrices"]
    for form, by_size in matrix["samples"].items():
        peer = "sm 4.1" if form == "blocking" else "libnbc 4.1"
        require(f"\n{form}, sum of float, 2 ranks on one host\n" in result.output, result.tail())
        for size, samples in by_size.items():
            peers = {sample["peer"] for sample in samples}
            copies = form == "blocking" and int(size) > 8
            wanted = {GPUAR, AGAIN, peer} | ({BOUND} if copies else set())
            require(peers == wanted, f"{form}, {size} bytes: {peers}")
    absent = [name for name, _ in document["skipped"]]
    require(len(absent) == 2 and "Debian 13" in absent[0], f"without roots: {absent}")
    for text in (
        *absent,
        "gpuar / best peer",
        "geometric mean",
        "pairs of samples were of equal state",
    ):
        require(text in result.output, result.tail())
