"""One line per check, the totals, and a file with all figures."""

import json
import sys
import time
import traceback

from lanes import Failure, Skip


class Deadline:
    """The time that the whole may take."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return self.end - time.monotonic()

    def limit(self, seconds):
        """A time limit for the next step: `seconds`, or what is left if that is less."""
        if self.left() < 3:
            raise Skip("no time left; --minutes gives more")
        return min(seconds, self.left())


class Report:
    def __init__(self, output, about, deadline):
        self.output = output
        self.deadline = deadline
        self.document = {"about": about, "lines": [], "figures": {}}
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        self.table = open(output / "table.txt", "w")
        self.start = time.monotonic()

    def say(self, line=""):
        print(line, flush=True)
        print(line, file=self.table, flush=True)

    def check(self, name, body):
        """Runs one check. Its value, a text, stands on the line; a failure says why there."""
        start = time.monotonic()
        try:
            verdict, text = "PASS", body() or ""
        except Skip as skip:
            verdict, text = "SKIP", str(skip)
        except Failure as failure:
            verdict, text = "FAIL", str(failure)
            if text.startswith("no end after") and self.deadline.left() < 3:
                verdict, text = "SKIP", "cut off when the time was up; --minutes gives more"
        except Exception:
            trace = traceback.format_exc().strip()
            verdict, text = "FAIL", f"{trace.splitlines()[-1]}\n{trace}"
        self.line(verdict, name, text, time.monotonic() - start)

    def line(self, verdict, name, text, seconds=None):
        self.counts[verdict] += 1
        first, _, rest = text.partition("\n")
        took = f" ({seconds:.1f} s)" if seconds is not None else ""
        self.say(f"{verdict} {name}{': ' + first if first else ''}{took}")
        for more in rest.splitlines():
            self.say(f"    {more}")
        self.document["lines"].append({"verdict": verdict, "name": name, "text": text})

    def figures(self, name, value):
        self.document["figures"][name] = value

    def end(self):
        """Writes the file; returns the exit status."""
        passed, failed, skipped = self.counts.values()
        self.document["seconds"] = round(time.monotonic() - self.start, 1)
        file = self.output / "results.json"
        file.write_text(json.dumps(self.document, indent=1) + "\n")
        self.say(f"\nfigures: {file}; what every program said: {self.output / 'log.txt'}")
        self.say(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed or not passed else 0


def begin(output):
    output.mkdir(parents=True, exist_ok=True)
    try:
        return open(output / "log.txt", "w")
    except OSError as error:
        sys.exit(f"bench/gpu/check: cannot write into {output}: {error}")
