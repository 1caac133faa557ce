"""Roots of other Debian releases, made by mmdebstrap from the mirror that this machine's apt uses, and
kept between runs outside the tree: for tests, and for the MPIs that bench/race runs.

A root is a folder to change root into, with mounts, processes, /tmp and /dev/shm of its own: what was
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

# In namespaces of its own, where the root is a mount of its own, too: a tool within that mounts (one
# that builds container images, say) can make it private. The arguments: the root, pairs of a folder
# outside and where it is seen inside, --, and the command.
ENTER = r"""
set -e
root=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    shift 2
done
shift
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
exec chroot "$root" "$@"
"""


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpuar" / "roots"


def mirror():
    """Where this machine's apt has Debian's main archive from."""
    form = ["--format", "$(REPO_URI)|$(LABEL)|$(COMPONENT)"]
    listed = mpi.run(["apt-get", "indextargets", *form, "Created-By: Packages"], timeout=120).output
    for line in listed.splitlines():
        uri, _, of = line.partition("|")
        if of == "Debian|main":
            return uri
    raise Skip("apt's configuration names no mirror of Debian, or its lists were never read")


def apt_settings():
    """How this machine's apt fetches: proxies, say. A snapshot of a release may be past its date."""
    form = ["dump", "Acquire", "--format", '%f "%v";%n']
    lines = mpi.run(["apt-config", *form], timeout=120).output.splitlines()
    wanted = re.compile(r'Acquire::(Check-|Retries|https?::).* "..*";')
    return "\n".join([*filter(wanted.match, lines), 'Acquire::Check-Valid-Until "false";', ""])


def need_tools():
    if os.geteuid() != 0:
        raise Skip("a root of another Debian release takes root")
    for name in ("mmdebstrap", "unshare", "chroot"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")
    if mpi.run(["unshare", "--mount", "--pid", "--fork", "true"], timeout=60).status:
        raise Skip("namespaces cannot be made here")


@contextmanager
def locked(release):
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / f"{release}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def minimal(release):
    """The archive of a minimal root: what Debian calls required, and apt."""
    need_tools()
    archive = cache() / f"{release}.tar"
    with locked(release):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=cache(), prefix="part-") as part:
                make_archive(release, Path(part)).rename(archive)
    return archive


def make_archive(release, folder):
    settings, archive = folder / "apt.conf", folder / "root.tar"
    settings.write_text(apt_settings())
    # What it mounts goes with it, however it ends.
    make = ["unshare", "--mount", "mmdebstrap", "--quiet", "--variant=minbase"]
    make += [f"--aptopt={settings}", "--include=ca-certificates", release, archive, mirror()]
    try:
        made = mpi.run(make, timeout=1800)
    except Failure as failure:
        raise Skip(f"mmdebstrap {release} comes to no end") from failure
    if made.status:
        raise Skip(f"mmdebstrap {release}: {errors_of_apt(made)}")
    return archive


def errors_of_apt(result):
    errors = [line for line in result.output.splitlines() if line.startswith("E:")]
    return " ".join(errors)[:200] or result.tail(1)


class Release:
    """A root of a release. Named ones are kept; the others are removed at the end."""

    def __init__(self, release, folder):
        self.release = release
        self.folder = folder

    def enter(self, words, bound=()):
        """The words that run others within, where the folders `bound`, (outside, inside), are seen."""
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        enter += ["sh", "-c", ENTER, "sh", self.folder]
        return [*enter, *(folder for pair in bound for folder in pair), "--", *words]

    def run(self, *argv, timeout, env=None, user=None):
        """Runs a command in the root, in its copy of the tree if it has one."""
        words = ["env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"]
        words += [f"{name}={value}" for name, value in (env or {}).items()]
        if user:
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *words]
            words.append(f"HOME=/home/{user}")
        return mpi.run(self.enter([*words, *argv]), timeout=timeout)

    def shell(self, script, **arguments):
        return self.run("bash", "-c", script, **arguments)

    def install(self, packages):
        install = "apt-get install -y -q --no-install-recommends"
        script = f"apt-get update -q && {install} {' '.join(packages)}"
        result = self.shell(script, env={"DEBIAN_FRONTEND": "noninteractive"}, timeout=1800)
        if result.status:
            raise Skip(f"{self.release}: packages cannot be had: {errors_of_apt(result)}")

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


def kept_folder(release, purpose):
    return cache() / f"{release}-{purpose}"


def kept(release, purpose="tests", packages=()):
    """A root that stays, made with these packages, with what is installed and built in it later."""
    need_tools()
    folder = kept_folder(release, purpose)
    archive = minimal(release)
    with locked(release):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache(), prefix="part-") as part:
                made = Release(release, Path(part) / "root")
                unpack_archive(archive, made.folder)
                if packages:
                    made.install(packages)
                made.folder.rename(folder)
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
