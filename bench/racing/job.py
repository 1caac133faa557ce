"""One MPI job that waits for requests, and the probe of the cores that stands beside all jobs."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from lanes import BUILD, Failure, mpi

START_SECONDS = 60
# Beyond the time that a request asks for: what a slow MPI takes for checks and a handful of calls.
# An MPI that takes longer hangs.
PATIENCE_SECONDS = 60


MOST_WORDS = 1 << 20  # bytes of a job's output that are looked at


class Out(Exception):
    """An entrant leaves the race; the text says why."""


class Line:
    """The connection to one rank."""

    def __init__(self, connection):
        self.connection = connection
        self.answers = connection.makefile("r")

    def write(self, request):
        self.connection.sendall(request.encode())

    def read(self, seconds):
        self.connection.settimeout(seconds)
        return json.loads(self.answers.readline())

    def close(self):
        self.answers.close()
        self.connection.close()


class Job:
    """`start(socket)` gives the words and the environment that run the racer on all ranks; `folder`
    is one that the job sees as `seen`."""

    def __init__(self, name, ranks, start, folder, seen=None):
        self.name, self.ranks = name, ranks
        self.lines = []  # one to each rank
        self.output = tempfile.TemporaryFile()
        path = Path(folder) / f"{name.replace('/', '-')}.socket"
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(path))
            door.listen(ranks)
            words, env = start(Path(seen or folder) / path.name)
            self.process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
            try:
                self.mpi = self._greet(door)
            except BaseException:
                self.end()
                raise

    def _greet(self, door):
        """Waits for every rank to connect; returns what the MPI calls itself."""
        deadline = time.monotonic() + START_SECONDS
        door.settimeout(0.2)
        hello = {}
        while len(self.lines) < self.ranks:
            if self.process.poll() is not None:
                raise Out(f"does not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise Out(f"no start after {START_SECONDS} s: {self._last_words()}")
            with contextlib.suppress(TimeoutError):
                self.lines.append(Line(door.accept()[0]))
        for line in self.lines:
            hello = line.read(START_SECONDS)
            if hello["ranks"] != self.ranks:
                raise Out(f"its ranks do not find each other: {hello['ranks']} of {self.ranks}")
        return hello["mpi"]

    def ask(self, form, type_name, op, size, seconds, warmup):
        """One sample: what rank 0 answers, and how often a rank lost its core. Raises Out if a
        result is wrong, or the job dies or hangs."""
        request = f"{form} {type_name} {op} {size} {seconds} {warmup}\n"
        try:
            for line in self.lines:
                line.write(request)
            answers = [line.read(seconds + PATIENCE_SECONDS) for line in self.lines]
        except TimeoutError:
            raise Out(f"hangs at {size} bytes, {form}") from None
        except (OSError, ValueError):
            raise Out(f"died at {size} bytes, {form}: {self._last_words()}") from None
        errors = [answer["error"] for answer in answers if "error" in answer]
        if errors:
            raise Out(f"{form}, {size} bytes: {errors[0]}")
        sample = answers[0]
        sample["preempted"] = sum(answer["preempted"] for answer in answers)
        return sample

    def printed(self):
        """What the job has printed so far."""
        return os.pread(self.output.fileno(), MOST_WORDS, 0).decode(errors="replace")

    def _last_words(self):
        """What it printed: the signal that it died of, or what comes first."""
        words = [
            re.sub(r"^\[[^]]*\]\s*", "", line).strip(" -*") for line in self.printed().splitlines()
        ]
        words = [text for text in words if text and not text.startswith(("mca:", "coll:"))]
        signals = [text for text in words if text.startswith("Signal:")]
        return " ".join(signals[:1] or words[:3])[:200] or "it says nothing"

    def end(self):
        for line in self.lines:
            line.close()
        self.lines = []
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2 if self.process.poll() is None else 0)
        mpi.end_session(self.process)
        self.output.close()


class Probe:
    """The state of the machine at a moment: see probe.cpp."""

    def __init__(self, program=BUILD / "bench" / "racing" / "race_probe"):
        if not shutil.which(str(program)):
            raise Failure(f"there is no {program}: build gpuar first")
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _ask(self, request):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            if answer := self.process.stdout.readline():
                return float(answer)
        raise Failure(self.process.stderr.read().strip() or "race_probe ended")

    def latency(self):
        """Nanoseconds that a cache line takes from one core to the other."""
        return self._ask("latency")

    def copy_rate(self, size):
        """GB/s at which each core copies vectors of that size, both at once."""
        return self._ask(f"copy {size}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()
