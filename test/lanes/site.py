"""docs/site.md and docs/support.md: each command and each file that they show does what they say."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from lanes import BUILD, ROOT, Skip, docs, lane, mpi, require

APP = [BUILD / "bench" / "gpuar_bench", "--sizes", "8,64K", "--iterations", "3"]
PAGE = ROOT / "docs" / "site.md"
TUNING = """\
format = 1
[[table]]
ranks = 2
nodes = 1
entries = [{ algorithm = "ring" }]
"""


def lanes():
    return {"site": site}


@lane()
def site():
    "docs/site.md: the site's parameter file, off and on, upgrade; versions as docs/support.md says"
    yield "every command is tested", every_command
    yield "ompi_info shows the semantic version", version_shown
    yield "opt-in: coll = ^gpuar in the site's file", opt_in
    yield "the default for all: a tuning file in the site's file", default_for_all
    yield "off, by the environment and the command line", off
    yield "is it in use?", in_use
    yield "an upgrade leaves the old file to those who run it", upgrade
    yield "docs/support.md names what is here", lambda: versions_named(installed())


def every_command():
    """Those of meson are tried by the lane install, those of srun by the lane slurm, the rest here."""
    known = [
        "meson setup build-install",
        "meson install -C build-install",
        "ompi_info --param coll gpuar --level 9",
        "mpirun --mca coll gpuar ./app",
        "OMPI_MCA_coll=gpuar srun --mpi=pmix ./app",
        "OMPI_MCA_coll=^gpuar srun --mpi=pmix ./app",
        "mpirun --mca coll ^gpuar ./app",
        "mpirun -n 2 --mca coll_gpuar_counters 1 gpuar_bench --sizes 8,64K",
    ]
    shown = [" ".join(words) for words in docs.shown(PAGE) if "=" not in words[1:2]]
    require(sorted(shown) == sorted(known), f"shows other commands: {set(shown) ^ set(known)}")


def version_shown():
    project = json.loads((BUILD / "meson-info" / "intro-projectinfo.json").read_text())["version"]
    require(re.fullmatch(r"\d+\.\d+\.\d+", project), f"{project} is no semantic version")
    asked = [mpi.tool("ompi_info"), "--param", "coll", "gpuar", "--level", "9", "--parsable"]
    answer = mpi.succeed(mpi.run(asked, timeout=60, env=mpi.environment("gpuar")), "ompi_info")
    shown = re.findall(r"mca:coll:gpuar:version:.*component:([\w.]+)", answer.output)
    require(shown == [project], f"ompi_info shows {shown}, and this is {project}\n{answer.tail()}")


def site_file():
    asked = [mpi.tool("ompi_info"), "--parsable", "--path", "sysconfdir"]
    folder = mpi.run(asked, timeout=60).output.strip().split(":")[-1]
    file = Path(folder) / "openmpi-mca-params.conf"
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("another openmpi-mca-params.conf takes root")
    require(file.exists(), f"{file} does not exist")
    return file


def with_site_file(text, **arguments):
    """mpirun of the program where the site's file of parameters has that text."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "params.conf"
        own.write_text(text)
        script = f'mount --bind {own} {site_file()} && exec "$@"'
        prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
        return mpi.succeed(mpi.mpirun(2, APP, prefix=prefix, **arguments))


def shown_file(number):
    """The n-th file of parameters that the page shows."""
    return PAGE.read_text().split("```ini\n")[number + 1].split("```")[0]


def is_stock(result):
    require(not mpi.counters(result.output), f"gpuar was loaded\n{result.tail()}")
    require("other" in result.output, result.tail())


def opt_in():
    text = shown_file(0)
    is_stock(with_site_file(text, mca={"coll": None}))
    mpi.check_served(2, with_site_file(text, mca={"coll": "gpuar"}))
    by_environment = {"OMPI_MCA_coll": "gpuar"}
    mpi.check_served(2, with_site_file(text, mca={"coll": None}, env=by_environment))


def default_for_all():
    text = shown_file(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tuning.toml"
        file.write_text(TUNING)
        text = re.sub("= /.*", f"= {file}", text)
        verbose = {"coll": None, "coll_gpuar_verbose": 1}
        result = with_site_file(text, mca=verbose)
        mpi.check_served(2, result)
        require(f"tuning file {file}" in result.output, result.tail())
        result = with_site_file(text, mca=verbose | {"coll_gpuar_tuning_file": ""})
        require(f"tuning file {file}" not in result.output, result.tail())


def off():
    for mca, env in (({"coll": "^gpuar"}, {}), ({"coll": None}, {"OMPI_MCA_coll": "^gpuar"})):
        is_stock(mpi.succeed(mpi.mpirun(2, APP, mca=mca | {"coll_gpuar_counters": 1}, env=env)))


def in_use():
    mpi.check_served(2, mpi.succeed(mpi.mpirun(2, [*APP[:3], "--min-time", "0.001"])))


def upgrade():
    """meson install puts a new file into the place of the old one."""
    with tempfile.TemporaryDirectory() as folder:
        inodes = []
        for _ in range(2):
            install = ["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder]
            mpi.succeed(mpi.run(install, timeout=120), "meson install")
            (file,) = Path(folder).rglob("mca_coll_gpuar.so")
            inodes.append(file.stat().st_ino)
            os.link(file, Path(folder) / f"held-{len(inodes)}")  # as one who has it open
    require(inodes[0] != inodes[1], "the file was written into")


def installed():
    """What docs/support.md must name."""
    asked = {
        "Open MPI": [mpi.tool("mpicc"), "--showme:version"],
        "UCX": ["pkg-config", "--modversion", "ucx"],
    }
    answers = {name: mpi.succeed(mpi.run(words, timeout=60)) for name, words in asked.items()}
    return {name: re.search(r"\d+(\.\d+)+", answer.output)[0] for name, answer in answers.items()}


def versions_named(found):
    text = (ROOT / "docs" / "support.md").read_text()
    for name, version in found.items():
        require(version in text, f"{name} {version} is not in docs/support.md")
