"""The race itself: who runs when, and who leaves."""

import itertools
import time
from collections import Counter
from dataclasses import asdict, dataclass

from racing import pairing
from racing.entrants import AGAIN, DEFAULT, FORMS, GPUAR
from racing.job import Out

OWN_WARMUP = 1 << 20  # from here on a call is long enough to be its own warm-up
BETWEEN = 4  # peers run between two turns of gpuar
SETTLED = 4 << 20  # beyond, a peer's best setting is the one of the size before


@dataclass(frozen=True)
class Matrix:
    """What is asked of everyone."""

    ranks: int
    sizes: tuple
    forms: tuple = FORMS
    type: str = "float"
    op: str = "sum"
    where: str = "one host"
    pinned: bool = True  # rank r to the r-th core
    rounds: int = 5
    seconds: float = 0.02  # of calls in a sample
    cap: float = 2  # seconds that an entrant may take for one size

    def __str__(self):
        return f"{self.op} of {self.type}, {self.ranks} ranks on {self.where}"


class Field:
    """All entrants of a matrix. Jobs wait beside each other, so that samples of different MPIs lie
    close together in time; those that are set alike share a job."""

    def __init__(self, matrix, entrants, probe, folder, log, clock=time.monotonic):
        self.matrix, self.entrants = matrix, entrants
        self.probe, self.folder, self.log, self.clock = probe, folder, log, clock
        self.jobs, self.numbers = {}, itertools.count()
        self.out = {}  # (entrant, form): why it is not in the race any more
        self.needed = {}  # form: who went on after the first round of the size before
        self.mpis = {}  # entrant: what its MPI calls itself

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs.values():
            job.end()
        self.jobs = {}

    def run(self):
        """The matrix, and by form and size all samples."""
        samples = {
            form: {size: self._size(form, size) for size in self.matrix.sizes}
            for form in self.matrix.forms
        }
        out = [
            {"entrant": name, "form": form, "why": why} for (name, form), why in self.out.items()
        ]
        return {"matrix": asdict(self.matrix), "samples": samples, "out": out, "mpis": self.mpis}

    def _size(self, form, size):
        """Round after round; an entrant that has used its time up misses the rest of them."""
        samples, used = [], Counter()
        entrants = self.entrants if size <= SETTLED else self.needed.get(form, self.entrants)
        runners = [e for e in entrants if form in e.forms and size >= e.least]
        self.log(f"{form}, {size} bytes")
        for number in range(self.matrix.rounds):
            runners = [e for e in runners if (e.name, form) not in self.out]
            runners = [e for e in runners if e.is_gpuar or used[e.name] < self.matrix.cap]
            if number > 0 and all(e.is_gpuar for e in runners):
                break
            for sample in self.round(number, form, [(e, size) for e in in_turn(runners)]):
                used[sample["entrant"]] += sample["seconds"]
                samples.append(sample)
            runners = still_needed(runners, samples)
            if number == 0:
                self.needed[form] = runners
        self._leave_behind(form, size, samples)
        return samples

    def round(self, number, form, starts):
        """A sample of each (entrant, size) that still runs; the cores are read between any two."""
        samples = []
        before = self.probe.latency()
        for at, (entrant, size) in enumerate(starts):
            try:
                sample = self._sample(entrant, form, size)
            except Out as why:
                self._leave(entrant, [form], str(why))
                continue
            after = self.probe.latency()
            place = {"round": number, "at": at}
            samples.append(place | sample | {"before": before, "after": after})
            before = after
        return samples

    def _sample(self, entrant, form, size):
        matrix = self.matrix
        job = self._job(entrant)
        start = self.clock()
        warmup = 1 if size >= OWN_WARMUP else 10
        answer = job.ask(form, matrix.type, matrix.op, size, matrix.seconds, warmup)
        if answer["gpuar"] != entrant.is_gpuar:
            raise Out(f"{'' if answer['gpuar'] else 'not '}served by gpuar: {form}, {size} bytes")
        return {
            "entrant": entrant.name,
            "peer": entrant.peer,
            "bytes": size,
            # The fastest of some twenty batches: what disturbs a batch only ever makes it longer.
            "us": answer["min_us"],
            "median_us": answer["median_us"],
            "preempted": answer["preempted"],
            "seconds": self.clock() - start,
        }

    def _job(self, entrant):
        key = self._key(entrant)
        if key not in self.jobs:
            try:
                name = f"job{next(self.numbers)}"
                self.jobs[key] = entrant.home.job(name, entrant.setting, self.matrix, self.folder)
            except Out as why:
                self._leave(entrant, entrant.forms, str(why))
                raise
        self.mpis[entrant.name] = self.jobs[key].mpi
        return self.jobs[key]

    @staticmethod
    def _key(entrant):
        return id(entrant.home), str(entrant.setting.mca), str(entrant.setting.env)

    def _leave(self, entrant, forms, why):
        """Out of these forms. A job that has failed is ended; another form gets a new one."""
        if (entrant.name, forms[0]) not in self.out:
            self.log(f"{entrant.name} is out: {why}")
        for form in forms:
            self.out.setdefault((entrant.name, form), why)
        if job := self.jobs.pop(self._key(entrant), None):
            job.end()

    def _leave_behind(self, form, size, samples):
        """Who took longer than the cap for a single sample does not run the larger sizes."""
        if size == self.matrix.sizes[-1]:
            return
        for sample in samples:
            if sample["seconds"] > self.matrix.cap and sample["peer"] not in (GPUAR, AGAIN):
                why = f"a sample of {size} bytes took longer than the cap of {self.matrix.cap:g} s"
                self.out.setdefault((sample["entrant"], form), why)


def in_turn(runners):
    """The order of a round: gpuar, some peers, gpuar, some peers, …"""
    ours, others = runners[:1], runners[1:]
    return [
        e for i in range(0, len(others), BETWEEN) for e in ours + others[i : i + BETWEEN]
    ] or ours


def still_needed(runners, samples):
    """gpuar, and of each peer the default, the setting that is fastest so far, and those that could
    not be compared yet. Told by ratios to gpuar, since the cores may move between two samples."""
    ratios = {e.name: pairing.ratio(samples, f"{GPUAR}: {DEFAULT}", e.name) for e in runners}
    by_peer = {}
    for e in runners:
        by_peer.setdefault(e.peer, {})[e.name] = ratios[e.name]
    best = {pairing.slowest_against(of_peer) for of_peer in by_peer.values()}
    return [
        e
        for e in runners
        if e.is_gpuar or e.setting.name == DEFAULT or e.name in best or ratios[e.name] is None
    ]
