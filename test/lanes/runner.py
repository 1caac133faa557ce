"""The runner of the lanes: what it counts, prints and ends with."""

import contextlib
import io
import re

from lanes import Failure, Skip, lane, require


def lanes():
    return {"runner": runner}


@lane()
def runner():
    "what passes, fails and is skipped is counted so; a SKIP that is required fails"
    yield "passed", lambda: ends_with(0, "1 passed, 0 failed, 0 skipped", passes)
    yield "failed", lambda: ends_with(1, "1 passed, 1 failed, 0 skipped", passes, fails)
    yield "skipped", lambda: ends_with(0, "1 passed, 0 failed, 1 skipped", passes, skips)
    yield "all skipped", lambda: ends_with(1, "0 passed, 0 failed, 1 skipped", skips)
    yield "a SKIP that is required", lambda: ends_with(
        1, "1 passed, 1 failed, 0 skipped", passes, skips, required=["tried"]
    )
    yield "a test that breaks", lambda: ends_with(1, "1 passed, 1 failed, 0 skipped", passes, breaks)
    yield "a lane that cannot say its tests", cannot_say


def passes():
    pass


def fails():
    raise Failure("it is wrong\nthe tail of its output")


def skips():
    raise Skip("it cannot be had here")


def breaks():
    raise KeyError("of the test itself")


def run(function, required=()):
    """The lines, and the exit status, of a run of this one lane."""
    from lanes.__main__ import Report

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        report = Report(required)
        report.lane("tried", function)
        status = report.finish()
    return output.getvalue().splitlines(), status


def ends_with(status, totals, *bodies, required=()):
    lines, ended = run(lambda: ((body.__name__, body) for body in bodies), required)
    require(ended == status and lines[-1] == totals, f"status {ended}\n" + "\n".join(lines))
    for body in bodies:
        mine = [line for line in lines if re.match(rf"(PASS|FAIL|SKIP) tried: {body.__name__}\b", line)]
        require(len(mine) == 1, f"{len(mine)} lines of {body.__name__}\n" + "\n".join(lines))
    reasons = {fails: "it is wrong", skips: "it cannot be had here", breaks: "of the test itself"}
    for body in bodies:
        reason = reasons.get(body, "")
        require(reason in "\n".join(lines), f'"{reason}" is not printed\n' + "\n".join(lines))


def cannot_say():
    def broken():
        yield "first", passes
        raise KeyError("of the lane")

    lines, status = run(broken)
    require(status == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped", "\n".join(lines))
