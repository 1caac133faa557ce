"""Would the unit tests notice? Changes one thing in a source file, compiles it, and runs the tests
that are there for it; a change that they pass has survived.

All happens beside a copy of the tree that is built once. A changed file lies in a folder of its own,
which the compiler is told to look into first. Of a source one object is compiled, which the linker
takes instead of the library's; a header of the engine, a template, is compiled with one file of its
tests after the other, each a program of its own, until one of them fails.
"""

import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lanes import ROOT

FOLDERS = ["coll_gpuar", "ucx_bridge", "cuda_reduce", "topo", "test", "bench", "docs"]
FILES = ["meson.build", "meson_options.txt"]
SETUP = ["-Doptimization=1", "-Ddebug=false", "-Dcuda=disabled", "-Db_lundef=false"]

HOUR = 3600  # seconds after which tests hang, and
OVERDUE = 124  # how `timeout` says so

# What every one of a header's test programs needs besides.
WORLD = "test/engine/memory_transport.cpp"


@dataclass(frozen=True)
class Room:
    """Sources to change, and the unit tests that answer for them, the quick ones first."""

    sources: tuple  # glob patterns
    tests: tuple  # glob patterns of what is linked
    words: tuple  # Catch2's, one run each
    alone: tuple = ()  # for a header: files of tests, one after the other
    elsewhere: str = "(?!)"  # lines of which these tests see nothing, and lanes do


ROOMS = {
    "schedule": Room(
        ("coll_gpuar/schedule/builder.cpp", "coll_gpuar/schedule/printer.cpp"),
        ("test/schedule/*.cpp", "test/algorithms/docs*.cpp", "test/engine/engine_test.cpp", WORLD),
        ("[builder],[printer],[docs]", "[engine]", "[schedule],[composition]~[scale],[checker]~[scale]"),
    ),
    "engine": Room(
        (
            "coll_gpuar/engine/engine_*.h",
            "coll_gpuar/engine/pools.h",
            "coll_gpuar/engine/program.cpp",
        ),
        ("test/engine/*.cpp",),
        ("[engine]",),
        (
            "test/engine/engine_test.cpp",
            "test/engine/pools_test.cpp",
            "test/engine/prompt_test.cpp",
            "test/engine/loss_test.cpp",
            "test/engine/streams_test.cpp",
            "test/engine/unplanned_test.cpp",
            "test/report/journal_test.cpp",
            "test/report/trace_test.cpp",
        ),
        # Calls on device memory are tried on the simulated driver: test/engine/device.
        r"device|cuda_|engine_device\.h",
    ),
    "selection": Room(
        ("coll_gpuar/selection/*.cpp",),
        ("test/selection/*.cpp", "test/algorithms/docs*.cpp"),
        ("[selection],[tuning],[walk],[docs]",),
    ),
}

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
SKIPPED = re.compile(r"^\s*(//|#|static_assert|namespace|template|using|\[\[)|\boperator\b|constexpr")


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
    found = [mutant for path in paths for mutant in mutants_of(str(path.relative_to(ROOT)))]
    elsewhere = re.compile(ROOMS[room].elsewhere)
    return [each for each in found if not elsewhere.search(f"{each.path}: {each.before}")]


class Bench:
    """A copy of the tree, built once, beside which changed files are tried."""

    def __init__(self, folder, jobs, rooms):
        self.root, self.jobs = Path(folder), jobs
        self.build = self.root / "build"
        self.copy()
        if not (self.build / "build.ninja").exists():
            self.do(["meson", "setup", self.build, self.root, *SETUP])
        self.commands, self.objects = {}, {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            if "unit_tests.p" in entry["output"] or "gpuar_core" in entry["output"]:
                file = str((self.build / entry["file"]).resolve().relative_to(self.root))
                self.commands[file] = (shlex.split(entry["command"]), entry["file"])
                self.objects[file] = entry["output"]
        listed = self.do(["ninja", "-C", self.build, "-t", "commands", "test/unit_tests"])
        self.link = shlex.split(listed.strip().splitlines()[-1])
        needed = [word for room in rooms for word in self.linked_words(self.tests_of(room))]
        targets = {word for word in needed if word.endswith((".o", ".a"))}
        self.do(["ninja", "-C", self.build, f"-j{jobs}", *sorted(targets)])
        self.usual = {}  # seconds that tests take

    def copy(self):
        unwanted = shutil.ignore_patterns("__pycache__")
        for name in FOLDERS:
            shutil.copytree(ROOT / name, self.root / name, ignore=unwanted, dirs_exist_ok=True)
        for name in FILES:
            shutil.copy2(ROOT / name, self.root / name)

    def do(self, words):
        words = list(map(str, words))
        answer = subprocess.run(words, capture_output=True, text=True, timeout=HOUR)
        if answer.returncode:
            raise RuntimeError(f"{shlex.join(words)}\n{answer.stdout}{answer.stderr}")
        return answer.stdout

    def done(self, words):
        """Whether a compiler or linker ends well."""
        words = list(map(str, words))
        return subprocess.run(words, cwd=self.build, capture_output=True).returncode == 0

    def tests_of(self, room):
        found = [path for pattern in ROOMS[room].tests for path in self.root.glob(pattern)]
        return {str(path.relative_to(self.root)) for path in found}

    def linked_words(self, tests, without=()):
        """The linker's words for the unit tests, with these files of tests alone."""
        left_out = {
            name
            for file, name in self.objects.items()
            if file in without or (file.startswith("test/") and file not in tests)
        }
        return [word for word in self.link if word not in left_out]

    def compile(self, source, changed, folder):
        """The object of a source with a changed file (its own, or one that it includes); None if the
        compiler refuses."""
        command, file = self.commands[source]
        result = folder / "object.o"
        other = {self.objects[source]: result, f"{self.objects[source]}.d": folder / "object.d"}
        if source == changed:
            other[file] = folder / source
        words = [other.get(word, word) for word in command]
        return result if self.done([words[0], f"-I{folder}", *words[1:]]) else None

    def linked(self, result, source, tests, folder):
        words = self.linked_words(tests, {source})
        words = [folder / "program" if word == "test/unit_tests" else word for word in words]
        first = next(i for i, word in enumerate(words) if str(word).endswith((".o", ".a")))
        return self.done([*words[:first], result, *words[first:]])

    def run(self, program, of, words):
        """What the tests say: "survived", "caught", or "too slow", where they take five times the
        processor's seconds that the same tests, called `of`, take as they are. (These count, since
        the machine may have other work.)"""
        limit = math.ceil(5 + 5 * self.usual.get((of, words), 120))
        command = ["timeout", str(HOUR), "prlimit", "--as=8589934592", f"--cpu={limit}", program]
        command += [words, "--abort"] if words else ["--abort"]
        devnull = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd=self.build, stdout=devnull, stderr=devnull)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode in (OVERDUE, 128 + signal.SIGXCPU):
            return "too slow"
        self.usual.setdefault((of, words), used.ru_utime + used.ru_stime)
        return "caught" if process.returncode else "survived"

    def try_out(self, room, path, text):
        """What becomes of a file with this text: "survived", "caught", "too slow", or "no program",
        where the compiler has caught it."""
        programs = [(path, self.tests_of(room), ROOMS[room].words)]
        if path.endswith(".h"):
            programs = [(source, {WORLD}, ("",)) for source in ROOMS[room].alone]
        with tempfile.TemporaryDirectory(dir=self.root) as name:
            folder = Path(name)
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_text(text)
            for source, tests, runs in programs:
                result = self.compile(source, path, folder)
                if not result or not self.linked(result, source, tests, folder):
                    return "no program"
                of = source if path.endswith(".h") else room
                for words in runs:
                    verdict = self.run(folder / "program", of, words)
                    if verdict != "survived":
                        return verdict
        return "survived"

    def try_mutants(self, room, mutants):
        """Pairs of a mutant and what became of it, several at a time."""

        def one(mutant):
            lines = (self.root / mutant.path).read_text().splitlines(keepends=True)
            lines[mutant.line - 1] = mutant.after + "\n"
            return mutant, self.try_out(room, mutant.path, "".join(lines))

        with ThreadPoolExecutor(self.jobs) as pool:
            yield from pool.map(one, mutants)

    def check(self, room):
        """The files as they are must pass; how long that takes is what changed ones are held to."""
        names = sorted({mutant.path for mutant in all_mutants(room)})
        for end in (".cpp", ".h"):
            for name in [name for name in names if name.endswith(end)][:1]:
                verdict = self.try_out(room, name, (self.root / name).read_text())
                if verdict != "survived":
                    raise RuntimeError(f"{name} as it is: {verdict}")


def sample(room, number, seed):
    """So many changes, drawn evenly from the file; all if there are fewer."""
    found = all_mutants(room)
    chosen = random.Random(seed).sample(found, min(number, len(found))) if number else found
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.line))
