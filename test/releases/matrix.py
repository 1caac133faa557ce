"""gpuar with the Open MPI of other Debian releases: built and tested in their roots."""

import re
from dataclasses import dataclass

import releases
from lanes import Failure, Skip, require
from releases.core import SHORT, targets

# Of each release the Open MPI that it must have, or else the table in docs/support.md is wrong.
RELEASES = {"trixie": (5, 0), "forky": (6, 0)}
LANES = (
    "unit",
    "selection",
    "not_selected",
    "mpi_semantics",
    "mpi_agreement",
    "mpi_bits",
    "mpi_finalize",
    "mpi_handles",
    "mpi_hierarchy",
    "mpi_progress_thread",
    "mpi_transports",
    "check",
    "report",
    "symbols",
)
SHORT_TREE = f"{releases.TREE}-short"
VERDICT = re.compile(r"^(PASS|FAIL|SKIP) (\w+: .*?)(?:: (.*))? \(\d+\.\d s\)$")

PREPARE = r"""
set -e
. test/setup.sh
need_packages test/packages-build
build_gpuar "$@"
mkdir -p ~/.openmpi
echo 'btl = self,sm' >~/.openmpi/mca-params.conf  # no word of networks that are not there
mpicc --showme:version
dpkg-query --show --showformat='UCX ${Version}\n' libucx0
"""


@dataclass
class Verdict:
    word: str  # PASS, FAIL, SKIP
    name: str
    why: str


def verdicts(output):
    """What a run of lanes printed; the lines that belong to a test follow its own, indented."""
    found = []
    for line in output.splitlines():
        if match := VERDICT.match(line):
            found.append(Verdict(match[1], match[2], match[3] or ""))
        elif line.startswith("    ") and found:
            found[-1].why += "\n" + line[4:]
    return found


def judge(verdict):
    if verdict.word == "FAIL":
        raise Failure(verdict.why)
    if verdict.word == "SKIP":
        raise Skip(verdict.why)


def prepared(release, *build, tree=releases.TREE, options=""):
    """The release's root with gpuar built in it, in a copy of the tree there."""
    root = releases.kept(release, packages=["ccache"])
    root.copy_tree(tree)
    script = f"cd {tree}\n{PREPARE}"
    settings = {"GPUAR_SETUP_OPTIONS": options}
    result = root.run("bash", "-c", script, "bash", *build, env=settings, timeout=1500)
    if result.status and "apt-get" in result.tail(1):
        raise Skip(f"{release}: packages cannot be had: {releases.errors_of_apt(result)}")
    require(result.status == 0, f"building in {release} failed\n{result.tail()}")
    wanted = "Open MPI {}.{}.".format(*RELEASES[release])
    require(wanted in result.output, f"{release} has not {wanted}x: {result.tail(1)}")
    return root


def run(root, *command, tree=releases.TREE, timeout):
    """Runs lanes in the root; returns the verdicts."""
    script = f'cd {tree} && PYTHONPATH=test exec python3 -B "$@"'
    result = root.run("bash", "-c", script, "bash", *command, timeout=timeout)
    found = verdicts(result.output)
    require(found, f"no test ran\n{result.tail()}")
    return found


def short(release):
    """A handful of tests, of a build of its own that takes half the time."""
    built = targets(RELEASES[release], SHORT)
    options = "-Doptimization=1 -Ddebug=false"
    root = prepared(release, *built, tree=SHORT_TREE, options=options)
    return run(root, "-m", "releases.core", "short", tree=SHORT_TREE, timeout=600)


def core(release):
    root = prepared(release, *targets(RELEASES[release]))
    return run(root, "-m", "releases.core", "core", timeout=600)


def whole(release):
    root = prepared(release)
    found = run(root, "-m", "releases.core", "core", timeout=900)
    return found + run(root, "-m", "lanes", "--only", ",".join(LANES), timeout=3000)
