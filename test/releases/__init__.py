"""Roots of other Debian releases, made by mmdebstrap from the mirror that this machine's apt uses, and
kept between runs outside the tree.

A root is a folder to change root into, with mounts, processes and /dev/shm of its own: what was
started in it ends with the command, and nothing is left mounted."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from lanes import ROOT, Failure, Skip, mpi

TREE = "/gpuar"  # where a root has its copy of the tree

# In namespaces of its own. The first argument is the root, the rest the command.
ENTER = r"""
set -e
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount --rbind /sys "$root/sys"
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
exec chroot "$root" "$@"
"""


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpuar" / "roots"


def mirror():
    """Where this machine's apt has Debian from."""
    answer = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"],
        capture_output=True,
        text=True,
        check=False,
    )
    sites = [site for site in answer.stdout.split() if not re.search("security|debug", site)]
    if not sites:
        raise Skip("apt's configuration names no mirror of Debian, or its lists were never read")
    return sites[0]


def need_tools():
    if os.geteuid() != 0:
        raise Skip("a root of another Debian release takes root")
    for name in ("mmdebstrap", "unshare", "chroot"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")


@contextmanager
def locked(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def minimal(release):
    """The archive of a minimal root: what Debian calls required, and apt."""
    need_tools()
    archive = cache() / f"{release}.tar"
    with locked(cache() / f"{release}.lock"):
        if not archive.exists():
            part = archive.with_suffix(".part.tar")
            # What it mounts goes with it, however it ends.
            make = ["unshare", "--mount", "mmdebstrap", "--quiet", "--variant=minbase"]
            make += ["--aptopt=Acquire::Check-Valid-Until \"false\"", "--include=ca-certificates"]
            try:
                result = mpi.run([*make, release, part, mirror()], timeout=1800)
            except Failure as failure:
                raise Skip(f"mmdebstrap {release} comes to no end") from failure
            if result.status:
                part.unlink(missing_ok=True)
                raise Skip(f"mmdebstrap {release}: {result.tail(1)}")
            part.rename(archive)
    return archive


class Release:
    """A root of a release. Named ones are kept; the others are removed at the end."""

    def __init__(self, release, folder):
        self.release = release
        self.folder = folder

    def run(self, *argv, timeout, env=None, user=None):
        """Runs a command in the root, in its copy of the tree if it has one."""
        words = ["env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"]
        words += [f"{name}={value}" for name, value in (env or {}).items()]
        if user:
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *words]
            words.append(f"HOME=/home/{user}")
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        enter += ["sh", "-c", ENTER, "sh", self.folder]
        return mpi.run([*enter, *words, *argv], timeout=timeout)

    def shell(self, script, **arguments):
        return self.run("bash", "-c", script, **arguments)

    def copy_tree(self, to=TREE):
        """Brings the root's copy of the tree up to date. What did not change keeps its time, so that
        little is compiled again."""
        listed = ["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
        wanted = {name for name in names if name and (ROOT / name).is_file()}
        target = self.folder / to.lstrip("/")
        known = target / ".copied"
        before = set(known.read_text().split("\0")) if known.exists() else set()
        for name in before - wanted:
            (target / name).unlink(missing_ok=True)
        for name in wanted:
            source, copy = ROOT / name, target / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        known.write_text("\0".join(sorted(wanted)))


def kept(release):
    """A root that stays, with what was installed and built in it."""
    need_tools()
    folder = cache() / f"debian-{release}"
    archive = minimal(release)
    with locked(cache() / f"{release}.lock"):
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            unpack_archive(archive, part)
            part.rename(folder)
    return Release(release, folder)


def unpack_archive(archive, folder):
    folder.mkdir(parents=True)
    unpacked = mpi.run(["tar", "-C", folder, "-xf", archive, "--numeric-owner"], timeout=300)
    mpi.succeed(unpacked, "unpacking the root")


@contextmanager
def temporary(release):
    """A root as mmdebstrap made it, removed afterwards."""
    archive = minimal(release)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{release}-") as name:
        folder = Path(name) / "root"
        unpack_archive(archive, folder)
        yield Release(release, folder)
