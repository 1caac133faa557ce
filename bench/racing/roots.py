"""Root folders of other Debian releases, with their MPIs: made once by mmdebstrap and kept."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from lanes import BUILD, ROOT, Skip, mpi

OPEN_MPI = ("openmpi-bin", "libopenmpi-dev")
UCC = ("libucc-dev",)  # the names by which UCC looks for its parts
MPICH = ("mpich", "libmpich-dev")
MAKING_SECONDS = 1200
FAILURE_HOLDS = 24 * 3600  # seconds until a root that could not be made is tried again
SOURCES = (
    "bench/racing/racer.cpp",
    "bench/measure.cpp",
    "bench/served.cpp",
    "bench/data.cpp",
    "bench/device_buffer.cpp",
    "bench/cuda_driver.cpp",
)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpuar" / "race"


class Root:
    """One release. What cannot be had raises Skip."""

    def __init__(self, suite, packages):
        self.suite, self.packages = suite, packages
        self.folder = cache_folder() / suite
        self.why = cache_folder() / f"{suite}.why"  # it could not be made

    def need(self, log, make):
        """Makes the root if it is not there and `make` allows it."""
        if os.geteuid() != 0:
            raise Skip("a root folder of another release takes root")
        if self.folder.exists():
            return
        if not make:
            raise Skip("its root folder is not made yet: bench/race without --quick makes it")
        if self.why.exists() and time.time() - self.why.stat().st_mtime < FAILURE_HOLDS:
            raise Skip(self.why.read_text())
        log(f"making {self.folder}: some minutes, once")
        cache_folder().mkdir(parents=True, exist_ok=True)
        try:
            self._make()
        except Skip as why:
            self.why.write_text(str(why))
            raise

    def _make(self):
        if not shutil.which("mmdebstrap"):
            raise Skip("mmdebstrap is not installed")
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="part-") as part:
            made, settings = Path(part) / "made", Path(part) / "apt.conf"
            settings.write_text(apt_settings())
            words = ["mmdebstrap", "--variant=apt", f"--aptopt={settings}"]
            words += [f"--include={','.join(self.packages)}", self.suite, made, mirror()]
            answer = mpi.run(words, timeout=MAKING_SECONDS)
            if answer.status != 0:
                errors = [line for line in answer.output.splitlines() if line.startswith("E:")]
                raise Skip(f"mmdebstrap: {' '.join(errors)[:200] or answer.tail(1)}")
            shutil.rmtree(made / "var" / "cache" / "apt" / "archives", ignore_errors=True)
            os.rename(made, self.folder)

    def run(self, *words):
        """A command within; what it prints."""
        answer = subprocess.run(self.enter(words), capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise Skip(f"{words[0]}: {(answer.stderr or answer.stdout).strip()[:200]}")
        return answer.stdout

    def enter(self, words, bound=()):
        """The words that run others within, where the folders `bound`, (outside, inside), are seen.
        What is mounted for that goes with the process."""
        bound = [("/proc", "/proc"), ("/sys", "/sys"), ("/dev", "/dev"), *bound]
        mounts = [f"mount -t tmpfs tmp {self.folder}/tmp"]
        for outside, inside in bound:
            mounts.append(f"mkdir -p {self.folder}{inside}")
            mounts.append(f"mount --rbind {outside} {self.folder}{inside}")
        script = " && ".join([*mounts, f'exec chroot {self.folder} "$@"'])
        alone = ["unshare", "--mount", "--propagation", "private"]
        return [*alone, "sh", "-c", script, "sh", *map(str, words)]

    def racer(self, name, libraries):
        """The racer, compiled here for an MPI of this root with those of the libraries that exist."""
        file = BUILD / "bench" / "racing" / f"race_racer-{self.suite}-{name}"
        sources = [ROOT / source for source in SOURCES]
        newest = max(path.stat().st_mtime for path in (*sources, self.folder))
        if not file.exists() or file.stat().st_mtime < newest:
            folder = self.folder / "usr" / "lib" / multiarch()
            include = folder / name / "include"
            words = ["g++", "-std=c++20", "-O1", "-DFMT_HEADER_ONLY", "-DOMPI_SKIP_MPICXX"]
            words += ["-DMPICH_SKIP_MPICXX", f"-I{ROOT}", "-isystem", include, *sources]
            # Its C library may be newer than ours: what it lacks here it finds there.
            words += ["-static-libstdc++", "-static-libgcc", "-Wl,--allow-shlib-undefined"]
            found = [folder / library for library in libraries if (folder / library).exists()]
            words += [*found, "-ldl", "-o", file]
            print(f"bench/race: compiling {file.name}", file=sys.stderr)
            built = mpi.run(words, timeout=300)
            if built.status != 0:
                raise Skip(f"the racer does not compile: {built.tail(3)}")
        return file


@cache
def multiarch():
    return mpi.run(["gcc", "-print-multiarch"], timeout=60).output.strip()


@cache
def mirror():
    """Where the running system has Debian's main archive from."""
    form = ["--format", "$(REPO_URI)|$(LABEL)|$(COMPONENT)"]
    listed = mpi.run(["apt-get", "indextargets", *form, "Created-By: Packages"], timeout=60).output
    for line in listed.splitlines():
        uri, label, component = line.split("|")
        if (label, component) == ("Debian", "main"):
            return uri
    raise Skip("apt knows no archive of Debian")


def apt_settings():
    """How the running system fetches: proxies, say."""
    form = ["dump", "Acquire", "--format", '%f "%v";%n']
    lines = mpi.run(["apt-config", *form], timeout=60).output.splitlines()
    wanted = re.compile(r'Acquire::(Check-|Retries|https?::).* "..*";')
    return "\n".join([*filter(wanted.match, lines), ""])
