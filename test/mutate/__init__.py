"""Would the unit tests notice? Changes one thing in a source file, compiles it, and runs the tests
that are there for it; a change that they pass has survived.

All happens in a copy of the tree. Only the objects that a change can reach are compiled: for a header
of the engine, a template, that is its tests.
"""

import json
import random
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lanes import ROOT

FOLDERS = ["coll_gpuar", "ucx_bridge", "cuda_reduce", "topo", "test", "bench"]
FILES = ["meson.build", "meson_options.txt"]
SETUP = ["-Doptimization=1", "-Ddebug=false", "-Dcuda=disabled", "-Db_lundef=false"]


@dataclass(frozen=True)
class Room:
    """Sources to change, and the unit tests that answer for them."""

    sources: tuple  # glob patterns
    tests: str  # Catch2's words
    compiled: tuple = ()  # what a change to a header reaches: beginnings of paths


ROOMS = {
    "schedule": Room(
        ("coll_gpuar/schedule/builder.cpp", "coll_gpuar/schedule/printer.cpp"),
        "[schedule],[builder],[printer],[composition]~[scale],[checker]~[scale],[engine]",
    ),
    "engine": Room(
        (
            "coll_gpuar/engine/engine_*.h",
            "coll_gpuar/engine/pools.h",
            "coll_gpuar/engine/program.cpp",
        ),
        "[engine]",
        ("test/engine/",),
    ),
    "selection": Room(
        ("coll_gpuar/selection/*.cpp",),
        "[selection],[tuning],[walk],[docs]",
    ),
}

# The engine's side of devices is tried on the simulated driver, and its report by MPI programs:
# their lanes answer for them, not the unit tests.
LEFT_OUT = {"engine_device.h", "engine_report.h"}

SWAPS = [
    (r" == ", " != "),
    (r" != ", " == "),
    (r" < ", " <= "),
    (r" <= ", " < "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" && ", " || "),
    (r" \|\| ", " && "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " + "),
    (r" % ", " / "),
    (r"\+\+", "--"),
    (r"--(?=\w)", "++"),
    (r" \+= ", " -= "),
    (r"(?<=[( ])!(?=\w)", ""),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"\bstd::min\b", "std::max"),
    (r"\bstd::max\b", "std::min"),
    (r"(?<=[ (])0(?=[;,) ])", "1"),
    (r"(?<=[ (])1(?=[;,) ])", "2"),
]
STATEMENT = re.compile(
    r"^\s+(?!return|const|auto|using|static|case|break|throw|std::string|\}|[\w:<>]+\*? \w+(\(| =|;|\{))\S.*;$"
)
SKIPPED = re.compile(
    r"^\s*(//|#|static_assert|namespace|template|using|\[\[)|fail\(|refuse\(|\boperator\b|constexpr"
)


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    before: str
    after: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip() or '(nothing)'}"


def mutants_of(path):
    """All changes of one file."""
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        if SKIPPED.search(line):
            continue
        code = line.split("//")[0]
        for pattern, other in SWAPS:
            for found in re.finditer(pattern, code):
                if '"' in code[: found.start()]:
                    continue
                yield Mutant(
                    path, number, line, line[: found.start()] + other + line[found.end() :]
                )
        if STATEMENT.match(code.rstrip()):
            yield Mutant(path, number, line, "")


def all_mutants(room):
    paths = [path for pattern in ROOMS[room].sources for path in sorted(ROOT.glob(pattern))]
    names = [str(path.relative_to(ROOT)) for path in paths if path.name not in LEFT_OUT]
    return [mutant for name in names for mutant in mutants_of(name)]


class Bench:
    """A copy of the tree, built once, in which sources are changed and put back."""

    def __init__(self, folder, jobs):
        self.root, self.jobs = Path(folder), jobs
        self.build = self.root / "build"
        for name in FOLDERS:
            shutil.copytree(
                ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in FILES:
            shutil.copy(ROOT / name, self.root / name)
        shutil.copytree(ROOT / "docs", self.root / "docs")
        self.do(["meson", "setup", self.build, self.root, *SETUP])
        self.do(["ninja", "-C", self.build, f"-j{jobs}", "test/unit_tests"])
        entries = json.loads((self.build / "compile_commands.json").read_text())
        self.commands = {
            str((self.build / entry["file"]).resolve().relative_to(self.root)): entry["command"]
            for entry in entries
            if "unit_tests" in entry["output"] or "gpuar_core" in entry["output"]
        }
        listed = self.do(["ninja", "-C", self.build, "-t", "commands", "test/unit_tests"])
        self.link = listed.strip().splitlines()[-1]
        self.usual = {}  # seconds that the tests of a room take

    def do(self, words, timeout=3600):
        answer = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=timeout
        )
        if answer.returncode:
            raise RuntimeError(f"{shlex.join(map(str, words))}\n{answer.stdout}{answer.stderr}")
        return answer.stdout

    def compile(self, room, path):
        """False if it does not compile or link."""
        reached = (
            [path]
            if path.endswith(".cpp")
            else [name for name in self.commands if name.startswith(ROOMS[room].compiled)]
        )
        lines = [*(self.commands[name] for name in reached), self.link]
        return all(
            subprocess.run(line, shell=True, cwd=self.build, capture_output=True).returncode == 0
            for line in lines
        )

    def passes(self, room):
        """Whether the tests of a room pass, none of them much later than usual."""
        command = [self.build / "test" / "unit_tests", ROOMS[room].tests, "--abort"]
        limit = 10 + 5 * self.usual.get(room, 60)
        start = time.monotonic()
        try:
            answer = subprocess.run(
                ["prlimit", "--as=8589934592", *command],
                cwd=self.build,
                capture_output=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return False
        self.usual.setdefault(room, time.monotonic() - start)
        return answer.returncode == 0

    def try_out(self, room, mutant):
        """ "caught", "survived", or "no program": the compiler has caught it."""
        file = self.root / mutant.path
        right = file.read_text()
        lines = right.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.after + "\n"
        file.write_text("".join(lines))
        try:
            if not self.compile(room, mutant.path):
                return "no program"
            return "survived" if self.passes(room) else "caught"
        finally:
            file.write_text(right)

    def restore(self, room, mutant):
        """Compiles once more what the last mutant of a file has changed."""
        if not self.compile(room, mutant.path):
            raise RuntimeError(f"{mutant.path} does not compile any more")


def sample(room, number, seed):
    """So many changes, drawn evenly from the file; all if there are fewer."""
    found = all_mutants(room)
    chosen = random.Random(seed).sample(found, min(number, len(found))) if number else found
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.line))
