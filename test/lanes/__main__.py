"""The runner: one line per test, then the totals."""

import argparse
import difflib
import importlib
import pkgutil
import sys
import time
import traceback

import lanes as package
from lanes import Failure, Skip


def all_lanes():
    found = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name == "__main__":
            continue
        module = importlib.import_module(f"lanes.{info.name}")
        if hasattr(module, "lanes"):
            found.update(module.lanes())
    # The unit tests first, checks of the text last.
    return dict(
        sorted(found.items(), key=lambda item: (item[0] != "unit", on_request(item[1]), item[0]))
    )


def on_request(function):
    return getattr(function, "on_request", False)


def takes_long(function):
    return getattr(function, "takes_long", False)


def names(text):
    return [name for name in text.split(",") if name]


def parse_arguments(known):
    parser = argparse.ArgumentParser(
        prog="test/run", description="Installs what is missing, builds, and runs every test."
    )
    parser.add_argument("--list", action="store_true", help="list the lanes and stop")
    parser.add_argument("--only", metavar="LANE,…", type=names, default=[], help="run these alone")
    parser.add_argument(
        "--require",
        metavar="LANE,…",
        type=names,
        default=[],
        help="a SKIP in these is a failure; 'all' means every lane, with --long the longest too",
    )
    parser.add_argument("--long", action="store_true", help="the long form of the lanes that have one")
    parser.add_argument("--with-torch", action="store_true", help="install PyTorch for the lane ddp")
    arguments = parser.parse_args()
    if arguments.require == ["all"]:
        arguments.require = [
            name for name, lane in known.items() if arguments.long or not takes_long(lane)
        ]
    for name in arguments.only + arguments.require:
        if name not in known:
            near = difflib.get_close_matches(name, known) or sorted(known)
            parser.error(f"no lane {name}; try {', '.join(near[:3])}; --list names them all")
    return arguments


class Report:
    """Prints a line per test and keeps count."""

    def __init__(self, required):
        self.required = required
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def run(self, lane, name, body):
        start = time.monotonic()
        verdict, why = "PASS", ""
        try:
            body()
        except Skip as skip:
            verdict, why = "SKIP", str(skip)
            if lane in self.required:
                verdict, why = "FAIL", f"required, but cannot run here: {skip}"
        except Failure as failure:
            verdict, why = "FAIL", str(failure)
        except Exception:
            verdict, why = "FAIL", traceback.format_exc().strip()
            why = why.splitlines()[-1] + "\n" + why
        self.counts[verdict] += 1
        first, _, rest = why.partition("\n")
        seconds = time.monotonic() - start
        print(f"{verdict} {lane}: {name}{': ' + first if first else ''} ({seconds:.1f} s)")
        for line in rest.splitlines():
            print(f"    {line}")
        sys.stdout.flush()

    def lane(self, name, function):
        tests = iter(function())
        while True:
            try:
                test, body = next(tests)
            except StopIteration:
                return
            except Exception as problem:  # the lane cannot say what its tests are

                def raise_it(problem=problem):
                    raise problem

                self.run(name, "set-up", raise_it)
                return
            self.run(name, test, body)

    def finish(self):
        """Prints the totals; the exit status."""
        counts = self.counts
        print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
        return 1 if counts["FAIL"] or not counts["PASS"] else 0


def main():
    known = all_lanes()
    arguments = parse_arguments(known)
    if arguments.list:
        for name, function in known.items():
            remark = " (only when named)" if on_request(function) else ""
            print(f"{name:18} {(function.__doc__ or '').strip().splitlines()[0]}{remark}")
        return 0
    chosen = arguments.only or [
        name
        for name, function in known.items()
        if not on_request(function) or name in arguments.require
    ]
    package.long_form = arguments.long
    report = Report(arguments.require)
    for name in chosen:
        report.lane(name, known[name])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
