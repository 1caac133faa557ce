"""What docs/security.md says of the binaries and of a running job, as far as it can be looked up."""

import os
import re
import shutil
import stat
import subprocess
import threading
import time
from pathlib import Path

from lanes import BUILD, ROOT, Skip, lane, mpi, require

COMPONENT = BUILD / "mca_coll_gpuar.so"
TOOLS = [BUILD / "bench" / name for name in ("gpuar_bench", "gpuar_tune", "gpuar_sim")]
PROGRAM = BUILD / "test" / "mpi" / "late"
PRODUCT = ("coll_gpuar", "ucx_bridge", "cuda_reduce", "topo")
LOADS = re.compile(r"\b(dlopen|dlmopen)\s*\(([^;]*)\)")


def lanes():
    return {"security": security}


@lane()
def security():
    "hardening of what is built, what a running job opens, and what may be loaded"
    if not shutil.which("readelf"):
        raise Skip("readelf is not installed (package binutils)")
    for binary in (COMPONENT, *TOOLS):
        yield f"{binary.name} is hardened", lambda binary=binary: hardened(binary)
    yield "libraries are asked for, not loaded", loads_nothing
    yield "no process is started, no file is made", makes_nothing
    yield "a running job", running_job


def readelf(*words):
    return mpi.succeed(mpi.run(["readelf", "-W", *words], timeout=60), "readelf").output


def hardened(binary):
    require(" DYN " in readelf("-h", binary), "its addresses are fixed")
    segments, dynamic = readelf("-l", binary), readelf("-d", binary)
    stack = re.search(r"GNU_STACK.* (R\w+) ", segments)
    require(stack and stack[1] == "RW", "the stack may be executed")
    require("GNU_RELRO" in segments, "relocations stay writable")
    require("BIND_NOW" in dynamic or "NOW" in dynamic, "functions are bound late")
    require("TEXTREL" not in dynamic, "code is relocated")
    path = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    given = mpi.build_option("ucx")
    require(not path or (given and path[1].startswith(given)), f"searches {path and path[1]}")
    loaded = re.findall(r" LOAD .* (R[W ][E ]) ", segments)
    require(loaded and "RWE" not in loaded, "memory is both written and executed")
    wanted = readelf("--dyn-syms", binary)
    require("__stack_chk_fail" in wanted, "no stack protector")
    if mpi.build_option("optimization") not in ("0", "g", "plain"):
        require(re.search(r"__\w+_chk", wanted.replace("__stack_chk_fail", "")), "not fortified")


def sources():
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".cpp", ".h", ".cu"):
                yield path, path.read_text()


def loads_nothing():
    """Each dlopen of the product says RTLD_NOLOAD, and names the driver or what is loaded."""
    found = [(path, call) for path, text in sources() for call in LOADS.findall(text)]
    require(found, "no dlopen is found: does this test still look for the right thing?")
    for path, (function, words) in found:
        where = f"{path.relative_to(ROOT)}: {function}({words})"
        require(function == "dlopen" and "RTLD_NOLOAD" in words, f"may load: {where}")
    imported = readelf("--dyn-syms", COMPONENT)
    require("dlmopen" not in imported, "imports dlmopen")


MAKES = re.compile(
    r"\b(std::system|popen|posix_spawn\w*|exec[vl]\w*|fork|mkstemp|tmpnam|tempnam|tmpfile|shm_open|shmget"
    r"|mkfifo|bind|listen)\s*\("
)
WRITES = re.compile(r"std::ofstream \w+\(|\bfopen\(")
# The files that are written, where the user says.
MADE = {"coll_gpuar/reporting.cpp": 1, "coll_gpuar/tracing.cpp": 1}


def makes_nothing():
    for path, text in sources():
        calls = [
            line for line in text.splitlines() if not line.lstrip().startswith(("//", "*", "/*"))
        ]
        found = MAKES.findall("\n".join(calls))
        found = [name for name in found if name != "bind"]  # gpuar binds calls, not sockets
        written = WRITES.findall(text)
        allowed = MADE.get(str(path.relative_to(ROOT)), 0)
        require(not found, f"{path.relative_to(ROOT)} calls {found}")
        require(len(written) <= allowed, f"{path.relative_to(ROOT)} writes files: {written}")


def ranks_of(program):
    """Ranks of a job that runs this program, as process ids."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") == str(program):
                yield int(folder.name)
        except OSError:
            continue


def running_job():
    """Two ranks in the middle of a job under an open umask: no file of theirs, no segment and no folder
    that others may read or write."""
    copy = BUILD / "test" / "mpi" / "late_observed"  # told from other runs by its name
    shutil.copy(PROGRAM, copy)
    before, segments = set(os.listdir("/dev/shm")), system_v()
    old = os.umask(0)
    job = threading.Thread(
        target=lambda: mpi.mpirun(2, [copy, 40, 100000, 0, 100000], mca={"mpi_yield_when_idle": 1})
    )
    try:
        job.start()
        pids = wait_for(lambda: [pid for pid in ranks_of(copy) if maps_ucx(pid)], 2)
        time.sleep(0.5)
        problems = [problem for pid in pids for problem in exposed(pid)]
        made = set(os.listdir("/dev/shm")) - before
        problems += [f"/dev/shm/{n}" for n in made if is_open_to_others(Path("/dev/shm") / n)]
        added = {key: perms for key, perms in system_v().items() if key not in segments}
        problems += [f"segment {key}: {perms}" for key, perms in added.items() if int(perms, 8) & 7]
        print(
            f"    looked at {len(pids)} ranks, {len(made)} names in /dev/shm, {len(added)} segments"
        )
    finally:
        os.umask(old)
        job.join()
        copy.unlink()
    require(not problems, f"open to others: {problems}")
    gpuars = [name for name in os.listdir("/dev/shm") if "gpuar" in name or "ucx" in name]
    require(not set(gpuars) - before, f"left in /dev/shm: {gpuars}")


def wait_for(find, number):
    deadline = time.monotonic() + 30
    while len(found := find()) < number:
        require(time.monotonic() < deadline, "the job does not start")
        time.sleep(0.1)
    return found


def maps_ucx(pid):
    try:
        return "mca_coll_gpuar" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def is_open_to_others(path):
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o077)


def exposed(pid):
    """Regular files that a rank holds open for writing and others may read or write."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target, mode = os.readlink(link), link.stat().st_mode
        except OSError:
            continue
        writes = os.lstat(link).st_mode & stat.S_IWUSR
        # Open MPI's own keeps an empty file of this name, deleted.
        if stat.S_ISREG(mode) and writes and mode & 0o077 and "open_mpi." not in target:
            yield f"{target} (mode {stat.S_IMODE(mode):o})"


def system_v():
    """Permissions of the System V segments, by id."""
    lines = subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout.splitlines()
    fields = [line.split() for line in lines if line.startswith("0x")]
    return {words[1]: words[3] for words in fields}
