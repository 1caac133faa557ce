"""Test lanes.

A lane is a named group of tests. Each module of this package that has a function `lanes()` adds the
lanes it returns, a dict from name to function. A lane function is a generator of
(test name, callable) pairs; its docstring is the line that `test/run --list` shows. A test passes
when its callable returns, is skipped when it raises Skip, and fails on anything else:

    def lanes():
        return {"greeting": greeting}

    @lane(gpuar=True)               # each test asserts that gpuar served it: see mpi.py
    def greeting():
        "says hello"
        yield "two ranks", lambda: mpi.served(2, ["./hello"])
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

# With --long a lane runs all that it has; without, what fits a run before every change.
long_form = False


class Skip(Exception):
    """The test cannot run here; the text says why."""


class Failure(Exception):
    """The test failed; the first line says why, further lines are the tail of the output."""


def lane(*, gpuar=False, on_request=False, takes_long=False):
    """Marks a lane. gpuar: every test asserts that gpuar served its calls, so that the lane
    mutant_fallback can prove the assertion. on_request: runs only when named by --only or
    --require. takes_long: so, and 'all' means it with --long alone."""

    def mark(function):
        function.gpuar = gpuar
        function.on_request = on_request or takes_long
        function.takes_long = takes_long
        return function

    return mark


def require(condition, why):
    """Fails the test unless the condition holds."""
    if not condition:
        raise Failure(why)
