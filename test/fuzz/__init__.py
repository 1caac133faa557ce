"""Runs the fuzzer (fuzz.cpp) in many set-ups, and shrinks what it finds to one line.

A set-up is what differs between jobs: how many ranks, gpuar's parameters, where buffers lie,
threads. What a job does follows from its seed; a failure is the number of a batch, and is tried again
with less: alone, with fewer calls, with shorter ones.
"""

import random
import re
import shlex
from dataclasses import dataclass, field

from lanes import BUILD, Failure, mpi, on_device

PROGRAM = BUILD / "test" / "fuzz" / "fuzz"
COMPARED = re.compile(r"COMPARED calls=(\d+)")
FOUND = re.compile(r"batch=(\d+)")
DIFFERENCE = re.compile(r"DIFFERENCE batch=(\d+) call=(\d+) .*")
CALLS = 60  # at most, in a batch
POOL = 64  # batches that use the communicators of those before them

ALGORITHMS = ["ring", "recursive_doubling", "tree", "double_tree", "rabenseifner", "direct"]
ALGORITHMS += ["two_shot", "reduce_broadcast", "hierarchy", "leaders"]
ALGORITHMS += ["hierarchy:ring", "hierarchy:rabenseifner", "leaders:double_tree"]
ALGORITHMS += ["deep_hierarchy", "deep_leaders", "deep_hierarchy:ring"]
RANKS = [1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 8]
NODES = ["", "", "1", "2", "3", "1,3", "2,1", "4,4,1", "4/2", "/2", "/1,3", "5/2,1"]
MEMORY = [
    "odd=device,even=host",
    "device",
    "send=host,receive=device",
    "device+host+pinned+managed",
    "pool+device,devices=2",
]


@dataclass(frozen=True)
class SetUp:
    """One way to run the fuzzer."""

    ranks: int
    mca: dict = field(default_factory=dict)  # of gpuar, without coll_gpuar_
    memory: str = ""  # GPUAR_TEST_MEMORY's words; empty: the host's, without a driver
    device_limit: int = 0  # with memory: bytes up to which calls go through the host
    options: dict = field(default_factory=dict)  # of the program

    def run(self, options, timeout):
        """Runs it, whatever its end, and returns lanes.mpi's Result."""
        words = (self.options | options).items()
        argv = [PROGRAM, *(f"{name}={value}" for name, value in words)]
        mca = {f"coll_gpuar_{name}": value for name, value in self.mca.items()}
        if self.memory:
            machine = on_device.staged()
            return machine.launch(
                self.ranks,
                argv,
                memory=self.memory,
                limit=self.device_limit,
                gpu={"SIMGPU_DEVICES": 2},
                mca=mca,
                timeout=timeout,
            )
        # Ranks that spin would keep those from the processor that share it.
        mca |= {"mpi_yield_when_idle": 1}
        return mpi.mpirun(self.ranks, argv, mca=mca, timeout=timeout)

    def command(self, options):
        """The line that runs just this again, from the root of the sources."""
        words = ["PYTHONPATH=test", "python3", "-m", "fuzz", "--ranks", str(self.ranks)]
        for name, value in self.mca.items():
            words += ["--mca", name, shlex.quote(str(value))]
        if self.memory:
            words += ["--memory", self.memory, "--device-limit", str(self.device_limit)]
        words += [f"{name}={value}" for name, value in (self.options | options).items()]
        return " ".join(words)


def random_set_up(draw):
    """Any combination; `draw` is a random.Random."""
    mca = {}
    if draw.random() < 0.6:
        mca["algorithm"] = draw.choice(ALGORITHMS)
    if nodes := draw.choice(NODES):
        mca["test_node_size"] = nodes
    if draw.random() < 0.3:
        mca["segment_size"] = draw.choice([512, 1000, 4096, 65536])
        mca["pipeline_depth"] = draw.choice([0, 1, 2, 5])
    if draw.random() < 0.3:
        mca["eager_limit"] = draw.choice([1, 64, 1000, 1 << 20])
    if draw.random() < 0.2:
        mca["mailbox_size"] = draw.choice([0, 8, 100])
    if draw.random() < 0.15:
        mca["progress_thread"] = 1
    options = {}
    if draw.random() < 0.25:
        mca["reproducible"] = 1
        options["rounding"] = 1
    if draw.random() < 0.1:
        options["storm"] = 1
    memory, limit = "", 0
    if draw.random() < 0.2 and not on_device.lacks():
        memory, limit = draw.choice(MEMORY), draw.choice([0, 1000, 65536])
    elif draw.random() < 0.15:
        options["threads"] = draw.choice([2, 3])
    return SetUp(draw.choice(RANKS), mca, memory, limit, options)


def compared(result):
    """The calls that a job compared, all equal; None if it failed."""
    found = COMPARED.search(result.output)
    return int(found[1]) if found and result.status == 0 else None


def attempt(set_up, options, timeout):
    """Why a job failed, or None: the line of its difference, or how it ended."""
    try:
        result = set_up.run(options, timeout)
    except Failure as failure:  # no end
        return str(failure)
    if compared(result) is not None:
        return None
    found = DIFFERENCE.search(result.output)
    return found[0] if found else f"status {result.status}\n{result.tail()}"


class Shrink:
    """Looks for less that fails alike."""

    def __init__(self, set_up, options, why, timeout=60):
        self.set_up = set_up
        self.options = options
        self.why = why
        self.timeout = timeout

    def fails(self, **changes):
        """Whether it still fails with these options changed; then they stay. A failure may depend on
        time: what passes is tried once more."""
        options = self.options | {"seconds": self.timeout} | changes
        for _ in range(2):
            why = attempt(self.set_up, options, self.timeout + 30)
            if why:
                self.options, self.why = options, why
                return True
        return False

    def run(self):
        """Returns the command that fails with the least, and what it says."""
        batch = FOUND.search(self.why)
        if batch and self.to_batch(int(batch[1])):
            self.to_calls()
        self.to_elements()
        return self.set_up.command(self.options), self.why

    def to_batch(self, batch):
        """The batch alone, or else with those before it. True if alone."""
        for first in (batch, batch - batch % POOL):
            if self.fails(first=first, last=batch):
                return first == batch
        return False

    def to_calls(self):
        guess = DIFFERENCE.search(self.why)
        if guess and self.fails(keep=hex(1 << int(guess[2]))):
            return
        keep = (1 << CALLS) - 1
        for call in range(CALLS):
            if self.fails(keep=hex(keep & ~(1 << call))):
                keep &= ~(1 << call)

    def to_elements(self):
        """Fewer elements: the least bound that still fails, by halves."""
        passes, fails = -1, 1 << 22
        while fails - passes > 1:
            middle = (passes + fails) // 2 if passes >= 0 else fails // 16
            if self.fails(most=middle):
                fails = middle
            else:
                passes = middle


def failure(set_up, options, why):
    """The Failure of a job, shrunk."""
    command, least = Shrink(set_up, options, why).run()
    return Failure(f"{least.splitlines()[0]}\nreproduce: {command}\n{least}")


def job(set_up, seed, seconds, patience=60, **options):
    """Runs one job, which must be served by gpuar and find nothing; returns the calls compared. A
    batch that takes longer than `patience` seconds hangs."""
    options = {"seed": seed, "seconds": seconds, "limit": patience} | options
    try:
        result = set_up.run(options, seconds + 2 * patience)
    except Failure as hung:
        raise failure(set_up, options, str(hung)) from hung
    calls = compared(result)
    if calls is None:
        found = DIFFERENCE.search(result.output)
        raise failure(set_up, options, found[0] if found else result.tail())
    if set_up.ranks > 1:
        mpi.check_served(set_up.ranks, result)
    return calls


def campaign(seed, calls, seconds):
    """Jobs of random set-ups until so many calls were compared; yields (set-up, seed, calls)."""
    draw = random.Random(seed)
    done = 0
    while done < calls:
        set_up, job_seed = random_set_up(draw), draw.randrange(1 << 30)
        made = job(set_up, job_seed, seconds if set_up.ranks > 1 else 1, patience=600)
        done += made
        yield set_up, job_seed, made
