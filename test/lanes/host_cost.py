"""What a program without a GPU pays for device memory being taken: instructions, counted by callgrind."""

import os
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lanes import BUILD, ROOT, Skip, lane, mpi, require

COMPONENT = BUILD / "mca_coll_gpuar.so"
CALLS = 1500  # enough for what happens once, and not in every run alike, to fall out
MOST = 20  # instructions of a call
MOST_OF_A_POLL = 12
MOST_IN_ALL = 2200  # 2,000, and more for messages that come before the call


@dataclass(frozen=True)
class Purpose:
    """What lines are for: all lines of these files, and those that match."""

    files: frozenset
    words: re.Pattern

    def has(self, path, text):
        return os.path.basename(path) in self.files or bool(self.words.search(text))


# Lines that would not be there if all memory were the host's.
DEVICES = Purpose(
    frozenset(
        "gpu.h loaded_objects.h loaded_objects.cpp engine_device.h staging.h host_room.h cuda.cpp "
        "driver.cpp gpu.cpp memory.h".split()
    ),
    re.compile(
        r"device|cuda|\bgpu\b|carry|staging|Stage::|memory_type|ucx_type|must_ask|begin_late"
        r"|run->plan \?",  # unplanned: the ranks are still asking each other what memory they use
        re.IGNORECASE,
    ),
)
# If there were no report (see report.py).
REPORT = Purpose(
    frozenset("journal.h journal.cpp clock.h clock.cpp histogram.h engine_report.h".split()),
    re.compile(r"journal|stamp\b|core\.report"),
)
# All that is executed for a call: waiting for the others is not.
CALL = Purpose(frozenset(), re.compile(r"^(?!.*(is_complete|complete\.load|_progress\b|wait\(\)|polls))"))
# If there were no trace, and no ranges for a profiler (see trace.py).
TRACE = Purpose(
    frozenset("trace.h trace.cpp tracing.h tracing.cpp engine_trace.h ranges.h ranges.cpp".split()),
    re.compile(r"trace_|traced|shows_ranges|call_range|end_range"),
)
# A poll happens as often as a call has to wait: its share is told apart.
POLL = re.compile(r"\bgpuar_progress\b|::progress(_devices)?\(")


def lanes():
    return {"host_cost": host_cost}


@lane()
def host_cost():
    "instructions of an 8-byte MPI_Allreduce on host memory that support for devices costs"
    if not shutil.which("valgrind"):
        yield "valgrind", lambda: skip("valgrind is not installed")
        return
    yield f"at most {MOST} in a call, {MOST_OF_A_POLL} in a poll", at_most
    yield "the lines that cost something are seen", seen
    yield f"at most {MOST_IN_ALL} in a call, for whatever purpose", in_all


def skip(why):
    raise Skip(why)


def at_most():
    costs = difference(DEVICES)
    lines = "\n".join(f"{cost:5.1f}  {line}" for line, cost in costs.calls.most_common())
    in_call, in_poll = costs.calls.total(), costs.polls.total() / costs.poll_count
    print(f"    host memory pays {in_call:.1f} instructions of a call, {in_poll:.1f} of a poll")
    require(round(in_call) <= MOST, f"{in_call:.1f} instructions of a call\n{lines}")
    require(in_poll <= MOST_OF_A_POLL, f"{in_poll:.1f} instructions of a poll\n{costs.polls}")


def in_all():
    costs = difference(CALL)
    spent = costs.calls.total()
    print(f"    {spent:.0f} instructions of a call, with UCX's")
    lines = "\n".join(f"{cost:5.1f}  {line}" for line, cost in costs.calls.most_common(40))
    require(round(spent) <= MOST_IN_ALL, f"{spent:.1f} instructions of a call\n{lines}")
    require(spent > MOST, "hardly any instructions are seen")


def seen():
    """Nothing is measured if the component has no line numbers, or the words above match nothing."""
    costs = difference(DEVICES)
    for needed in ("present()", "on_device"):
        require(
            any(needed in line and cost >= 1 for line, cost in costs.calls.items()),
            f"no cost is seen of a line with {needed}: {costs.calls}",
        )
    require(costs.polls, "no cost is seen in a poll")


@dataclass
class Costs:
    """Instructions on lines for a purpose: of one call, and of all polls of that call."""

    calls: Counter = field(default_factory=Counter)
    polls: Counter = field(default_factory=Counter)
    poll_count: float = 0


@cache
def difference(purpose, report="0"):
    """Twice the calls less the calls: what comes before and after them falls out, up to what differs
    from run to run, which is not much for each call."""
    once, twice = (costs_of(profile(calls, report), purpose) for calls in (CALLS, 2 * CALLS))
    return Costs(
        Counter({line: n / CALLS for line, n in (twice.calls - once.calls).items() if n >= CALLS / 2}),
        twice.polls,
        twice.poll_count,
    )


@cache
def profile(calls, report):
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes"]
        valgrind += [f"--callgrind-out-file={folder}/%q{{OMPI_COMM_WORLD_RANK}}"]
        argv = [*valgrind, BUILD / "test" / "mpi" / "fixed_calls", calls]
        mca = {"mpi_yield_when_idle": 1, "coll_gpuar_report": report}
        mpi.served(2, argv, mca=mca, timeout=300)
        return Profile(Path(folder) / "0")


class Profile:
    """Callgrind's output for the component: by (function, address) instructions executed there, and
    those of other libraries that were called from there; calls by function."""

    NAME = re.compile(r"\((\d+)\)(?: (.*))?")

    def __init__(self, path):
        self.own, self.called, self.times = Counter(), Counter(), Counter()
        self.names = {}
        self.object = self.callee_object = self.function = self.callee = ""
        self.address, self.calls = 0, 0
        with path.open() as lines:
            for line in lines:
                self.read(line.rstrip("\n"))

    def read(self, line):
        key, _, value = line.partition("=")
        if key == "ob":
            self.object = self.callee_object = self.named("ob", value)
        elif key == "cob":
            self.callee_object = self.named("ob", value)
        elif key == "fn":
            self.function = self.named("fn", value)
        elif key == "cfn":
            self.callee = self.named("fn", value)
        elif key == "calls":
            self.calls = int(value.split()[0])
        elif line[:1] in ("0", "+", "-", "*") and self.function:
            self.count(*line.split()[::2])

    def named(self, kind, text):
        number, name = self.NAME.fullmatch(text).groups()
        if name is not None:
            self.names[kind, number] = name
        return self.names[kind, number]

    def count(self, position, cost):
        if position[0] in "+-":
            self.address += int(position, 0)
        elif position != "*":
            self.address = int(position, 0)
        ours = self.object.endswith(COMPONENT.name)
        place = self.function, self.address
        if not self.calls:
            self.own[place] += int(cost) if ours else 0
            return
        self.times[self.callee] += self.calls
        if ours and not self.callee_object.endswith(COMPONENT.name):
            self.called[place] += int(cost)
        self.calls, self.callee_object = 0, self.object


def costs_of(found, purpose):
    costs = Costs()
    places = [place for place, cost in found.own.items() if cost]
    for place, line in zip(places, source_lines([address for _, address in places], purpose)):
        if not line:
            continue
        part = costs.polls if POLL.search(place[0]) else costs.calls
        part[line] += found.own[place] + found.called[place]
    costs.poll_count = found.times["gpuar_progress"]
    require(costs.poll_count, "gpuar_progress was never called")
    return costs


def source_lines(addresses, purpose):
    """For each address the line of gpuar's that it was compiled for, if it is for the purpose. What
    the compiler took from the C++ library into a line is that line's."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(map(hex, addresses)))
        file.flush()
        # LLVM's, as that of binutils takes the first file of a function for another at times.
        argv = ["llvm-addr2line", "-a", "-i", "-e", COMPONENT, f"@{file.name}"]
        answer = mpi.succeed(mpi.run(argv, timeout=120), "llvm-addr2line")
    stacks = re.split(r"^0x[0-9a-f]+\n", answer.output, flags=re.M)[1:]
    require(len(stacks) == len(addresses), f"addr2line knows {len(stacks)} of {len(addresses)}")
    return [for_purpose(stack, purpose) for stack in stacks]


def for_purpose(stack, purpose):
    for frame in stack.splitlines():  # innermost first
        path, _, number = frame.split(" ")[0].rpartition(":")
        lines = text_of(path)
        if not lines:
            continue
        text = lines[int(number) - 1].strip() if number.isdigit() and int(number) <= len(lines) else ""
        return f"{os.path.basename(path)}:{number} {text}" if purpose.has(path, text) else ""
    return ""


@cache
def text_of(path):
    """The lines of a source of the product's; nothing for any other file."""
    resolved = Path(path).resolve()
    inside = resolved.is_relative_to(ROOT.resolve()) and resolved.is_file()
    return resolved.read_text().splitlines() if inside else []
