"""A cluster on one machine.

Each host is a set of namespaces of its own (network, host name, System V IPC, mounts), with its own
/etc/hosts and /dev/shm. Its interface eth0 is one end of a virtual cable, whose other end is a port
of a switch, a bridge in one more network namespace. There are two kinds of cable, see links.py: the
kernel's own limits bandwidth and loses packets, the one with a relay has latency as well and can be
cut.

    with Cluster([2, 2]) as cluster:              # ranks per host
        mpi.mpirun(4, ["./program"], **cluster.mpirun())

Nothing is left behind, however the program ends: namespaces live as long as their holders, and these
read a pipe from this process, which breaks with it; so do the relays. What still runs on a host is
killed at the end. Only the folder that a killed program leaves is removed by the next cluster.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from cluster.links import Relayed, Unavailable, Veth

__all__ = ["Cluster", "Holder", "Relayed", "Unavailable", "Veth"]

NETWORK = "10.77.0"
KINDS = ("net", "uts", "ipc", "mount")
FOLDER = "gpuar-cluster-"  # its name goes on with the owner's process id


def remove_leftovers():
    """Removes the folders of clusters whose owner is no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        owner = folder.name.removeprefix(FOLDER).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


class Holder:
    """Keeps a set of namespaces, as long as it lives."""

    def __init__(self, script="true", kinds=KINDS, clock=0):
        """`script` is run by a shell within, first of all. `clock`: by how many seconds the clock
        that counts from the boot is ahead within."""
        ahead = [f"--monotonic={clock}"] if clock else []
        self.kinds = (*kinds, "time") if clock else kinds
        self.process = subprocess.Popen(
            ["unshare", *(f"--{kind}" for kind in self.kinds), *ahead]
            + ["sh", "-c", f"{{ {script}; }} >&2 && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt from the keyboard is for the owner alone
        )
        if self.process.stdout.readline() != "ready\n":
            self.process.wait()
            raise Unavailable(f"namespaces cannot be made: {self.process.stderr.read().strip()}")
        self.inode = os.stat(f"/proc/{self.process.pid}/ns/net").st_ino

    def enter(self):
        """The words that run a command within."""
        namespaces = [f"--{kind}" for kind in self.kinds]
        return ["nsenter", f"--target={self.process.pid}", *namespaces]

    def do(self, command):
        """Runs one command within."""
        answer = subprocess.run(self.enter() + command.split(), capture_output=True, text=True)
        if answer.returncode:
            raise Unavailable(f"{command}: {answer.stderr.strip() or answer.stdout.strip()}")

    def pids(self):
        """The processes within, the holder's own among them."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.stat(folder / "ns" / "net").st_ino == self.inode:
                    yield int(folder.name)

    def end(self):
        """Kills what runs within, and so ends the namespaces."""
        self.process.stdin.close()
        for _ in range(100):
            left = list(self.pids())
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Cluster:
    def __init__(self, ranks, link=Veth("1gbit"), kinds=KINDS, clocks=None):
        """`ranks` on each host; `link`: the kind of its cable; `kinds` of namespaces of their own;
        `clocks`: by how many seconds each host's is ahead."""
        self.ranks = ranks
        self.link = link
        self.kinds = kinds
        self.clocks = clocks or [0] * len(ranks)
        self.names = [f"node{i + 1}" for i in range(len(ranks))]
        self.hosts = {}  # holders by name
        self.relays = {}  # by name of the host, where the cables have some
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces take root")
        for tool in ("ip", "tc", "unshare", "nsenter"):
            if not shutil.which(tool):
                raise Unavailable(f"{tool} is not installed (Debian packages iproute2, util-linux)")
        with contextlib.ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _build(self, stack):
        remove_leftovers()
        folder = tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-")
        self.folder = Path(stack.enter_context(folder))
        addresses = [f"{NETWORK}.{i + 1} {name}" for i, name in enumerate(self.names)]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *addresses, ""]))
        switch = self._hold(stack, "true", ("net",))
        switch.do("ip link add bridge type bridge")
        switch.do("ip link set bridge up")
        for number, name in enumerate(self.names, 1):
            clock = self.clocks[number - 1]
            self.hosts[name] = self._hold(stack, self._set_up(name), self.kinds, clock)
            self._plug(stack, switch, name, number)
        self.agent = self.folder / "agent"
        self.agent.write_text(self._agent_script())
        self.agent.chmod(0o755)

    def _agent_script(self):
        """What mpirun starts for another host, with its name and a command: as ssh, but into
        namespaces."""
        lines = ["#!/bin/sh", "host=$1", "shift", "case $host in"]
        for name, host in self.hosts.items():
            lines.append(f'{name}) exec {" ".join(host.enter())} sh -c "$*" ;;')
        lines += ["esac", 'echo "there is no host $host" >&2', "exit 1", ""]
        return "\n".join(lines)

    @staticmethod
    def _hold(stack, script, kinds, clock=0):
        holder = Holder(script, kinds, clock)
        stack.callback(holder.end)
        return holder

    def _set_up(self, name):
        steps = ["ip link set lo up"]
        if "uts" in self.kinds:
            steps.append(f"hostname {name}")
        if "mount" in self.kinds:
            steps.append("mount -t tmpfs shm /dev/shm")
            steps.append(f"mount --bind {self.folder}/hosts /etc/hosts")
        return " && ".join(steps)

    def _plug(self, stack, switch, name, number):
        """A cable from the host to the switch."""
        port, host = f"port{number}", self.hosts[name]
        self.relays[name] = self.link.plug(switch, host, port, stack)
        switch.do(f"ip link set {port} master bridge up")
        host.do(f"ip address add {NETWORK}.{number}/24 dev eth0")
        host.do("ip link set eth0 up")

    def mpirun(self, env=None):
        """The arguments of lanes.mpi.mpirun that start a program on this cluster; `env` for every
        rank."""
        slots = ",".join(f"{name}:{ranks}" for name, ranks in zip(self.names, self.ranks))
        exports = [word for name in env or {} for word in ("-x", name)]
        return {
            "prefix": self.hosts[self.names[0]].enter(),
            "options": ["--host", slots, "--bind-to", "none", "--wdir", os.getcwd(), *exports],
            "env": env,
            "mca": {
                "plm_rsh_agent": self.agent,
                "oob_tcp_if_include": "eth0",
                "btl_tcp_if_include": "eth0",
                "orte_leave_session_attached": 1,
                "mpi_yield_when_idle": 1,
            },
        }

    def sent(self):
        """Bytes that each host has sent over its cable so far."""
        counts = {}
        for name, host in self.hosts.items():
            command = [*host.enter(), "cat", "/proc/net/dev"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            line = next(line for line in text.splitlines() if line.strip().startswith("eth0:"))
            counts[name] = int(line.split(":")[1].split()[8])
        return counts
