"""Slurm on the hosts of a cluster of test/cluster: munge, slurmctld and a slurmd per host, all with
files in the cluster's folder, and gone with it.

    with Cluster([2, 2]) as cluster, Slurm(cluster) as slurm:
        output = slurm.submit(["docs/slurm/nodes.sh", "./program"])
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import time

from cluster import Unavailable

__all__ = ["Slurm", "Unavailable"]

CONFIGURATION = """\
ClusterName=gpuar
SlurmctldHost={first}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
TmpFS={folder}/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=1,defer=0
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""
DAEMONS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}


class Slurm:
    """One partition of all hosts; each has as many CPUs as the cluster has ranks on it, and two GPUs
    as far as Slurm knows."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.folder = cluster.folder / "slurm"
        self.first = cluster.names[0]
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        for tool in DAEMONS:
            if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin"):
                raise Unavailable(f"{tool} is not installed (Debian packages slurm-wlm, munge)")
        with contextlib.ExitStack() as stack:
            self._configure()
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _configure(self):
        for name in ("state", "tmp", "jobs", *self.cluster.names):
            (self.folder / name).mkdir(parents=True)
        devices = [self.folder / f"gpu{i}" for i in range(2)]
        for device in devices:  # Slurm wants a device; that it is /dev/null's tells it nothing
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        nodes = [
            f"NodeName={name} CPUs={ranks} Gres=gpu:2 State=UNKNOWN"
            for name, ranks in zip(self.cluster.names, self.cluster.ranks)
        ]
        text = CONFIGURATION.format(first=self.first, folder=self.folder, nodes="\n".join(nodes))
        (self.folder / "slurm.conf").write_text(text)
        gres = f"NodeName={','.join(self.cluster.names)} Name=gpu File={self.folder}/gpu[0-1]\n"
        (self.folder / "gres.conf").write_text(gres)
        for host in self.cluster.hosts.values():  # where PMIx has its sockets: each host its own
            host.do(f"mount -t tmpfs tmpfs {self.folder}/tmp")

    def environment(self):
        """Of Slurm's own settings nothing but where its files are."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM", "SBATCH", "OMPI_", "PMIX_"))
        }
        path = f"{kept['PATH']}:/usr/sbin"
        return kept | {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": path}

    def _start(self, stack):
        key, socket = self.folder / "munge.key", self.folder / "munge.socket"
        self.run(["mungekey", "--create", f"--keyfile={key}"])
        munged = ["munged", "--foreground", "--force", f"--socket={socket}", f"--key-file={key}"]
        for name in ("log", "pid", "seed"):
            munged.append(f"--{name}-file={self.folder}/munge.{name}")
        self._daemon(stack, self.first, munged)
        self._wait(socket.exists, "munged has made no socket", 10)
        self._daemon(stack, self.first, ["slurmctld", "-D"])
        for name in self.cluster.names:
            self._daemon(stack, name, ["slurmd", "-D", "-N", name])
        self._wait(self._is_idle, "its nodes do not come up", 30)

    def _daemon(self, stack, host, words):
        """It ends with the stack, or with this process; what it leaves behind ends with the host."""
        log = stack.enter_context(open(self.folder / f"{words[0]}-{host}.out", "w"))
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *self.cluster.hosts[host].enter(), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment(),
            start_new_session=True,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)

    def _wait(self, holds, what, seconds):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise Unavailable(f"Slurm does not start here: {what}: {self._last_words()}")
            time.sleep(0.2)

    def _is_idle(self):
        answer = self.run(["sinfo", "--noheader", "--format=%T %D"], check=False)
        return answer.stdout.split() == ["idle", str(len(self.cluster.names))]

    def _last_words(self):
        """The last line with an error in any log."""
        logs = sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        errors = [line for line in lines if re.search("error|fatal|Error", line)]
        return (errors or lines or ["no log"])[-1]

    def run(self, words, *, check=True, env=None, cwd=None):
        """Runs a command on the first host."""
        return subprocess.run(
            [*self.cluster.hosts[self.first].enter(), *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
            timeout=60,
            env=self.environment() | {name: str(value) for name, value in (env or {}).items()},
            cwd=cwd or self.folder / "jobs",
        )

    def states(self, job):
        """The states of a job, one for each of its tasks in an array."""
        shown = self.run(["scontrol", "--oneliner", "show", "job", job]).stdout
        return re.findall(r"JobState=(\w+)", shown)

    def submit(self, words, *, env=None, timeout=60):
        """Runs sbatch with these words and waits for the job's end. Returns the states of its tasks,
        and what each of the files that it wrote holds, by name."""
        folder = self.folder / "jobs"
        before = set(folder.iterdir())
        nsenter = ["env", f"--chdir={folder}"]  # nsenter changes the working directory
        answer = self.run([*nsenter, "sbatch", "--parsable", *words], check=False, env=env)
        if answer.returncode:
            raise RuntimeError(f"sbatch: {answer.stderr.strip()}")
        job = answer.stdout.strip().split(";")[0]
        end = time.monotonic() + timeout
        while not set(self.states(job)) <= ENDED:
            if time.monotonic() > end:
                self.run(["scancel", job], check=False)
                break
            time.sleep(0.3)
        states = self.states(job)
        files = {path.name: path.read_text() for path in set(folder.iterdir()) - before}
        return states, files
