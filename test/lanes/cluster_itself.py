"""What the cluster lanes stand on: hosts apart from each other, links that are as they say."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster import Relayed, Veth
from lanes import ROOT, lane, mpi, require
from lanes.cluster import made


def lanes():
    return {"cluster_itself": cluster_itself}


@lane()
def cluster_itself():
    "what a cluster is made of: hosts apart from each other, links, and nothing left behind"
    yield "host names, addresses, memory", hosts_are_apart
    yield "nothing is left behind", nothing_left
    yield "nor by a program that was killed", nothing_left_by_the_killed
    yield "veth links: bandwidth", lambda: bandwidth(Veth("100mbit"))
    yield "veth links: loss", lambda: loss(Veth(loss=0.2))
    yield "relayed links: latency", latency
    yield "relayed links: bandwidth", lambda: bandwidth(Relayed(rate="100mbit"))
    yield "relayed links: loss", lambda: loss(Relayed(loss=0.1))
    yield "relayed links: cut and mended", cut_and_mended
    yield "a relay says what it does not understand", relay_refuses


def on(host, command):
    return mpi.succeed(mpi.run([*host.enter(), "sh", "-c", command], timeout=20), command).output


def hosts_are_apart():
    with made([1, 1]) as built:
        first, second = built.hosts.values()
        require(on(first, "hostname").strip() == "node1", "the host has another name")
        require("node2" in on(first, "getent hosts node2"), "one host does not know the other")
        on(first, "touch /dev/shm/gpuar-mark && ipcmk -M 64")
        require(not on(second, "ls /dev/shm").strip(), "the hosts share /dev/shm")
        require("0x" not in on(second, "ipcs -m"), "the hosts share System V memory")
        require("rate 1Gbit" in on(first, "tc qdisc show dev eth0"), "the cable is not shaped")


def alive(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    return False


def nothing_left():
    with made([1, 1]) as built:
        host = built.hosts["node2"]
        holders = [holder.process.pid for holder in built.hosts.values()]
        inodes = [holder.inode for holder in built.hosts.values()]
        sleeper = subprocess.Popen([*host.enter(), "sleep", "1000"])
        while sleeper.pid not in host.pids():
            time.sleep(0.01)
        folder = built.folder
    require(sleeper.wait(5) == -signal.SIGKILL, "a program still runs on the host")
    require(not any(map(alive, holders)), "a holder still runs")
    require(not folder.exists(), f"{folder} is left")
    require(not processes_in(inodes), "a namespace is left")


def processes_in(inodes):
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.stat(f"/proc/{entry.name}/ns/net").st_ino in inodes:
                found.append(int(entry.name))
    return found


def nothing_left_by_the_killed():
    with made([1], Relayed()):
        pass  # or Skip
    script = (
        "import sys, time, cluster\n"
        "with cluster.Cluster([1, 1], cluster.Relayed()) as made:\n"
        "    parts = [*made.hosts.values(), *made.relays.values()]\n"
        "    print(*(part.process.pid for part in parts), made.folder, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-B", "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT / "test")},
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner.stdout:
        *holders, folder = owner.stdout.readline().split()
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 5
    while any(map(alive, holders)) and time.monotonic() < deadline:
        time.sleep(0.05)
    require(not any(map(alive, holders)), "holders or relays outlive their owner")
    with made([1]):
        require(not Path(folder).exists(), f"the next cluster leaves {folder}")


# Answers every datagram, and takes whatever a connection brings and says when it had all of it.
SERVER = """
import socket, threading
stream = socket.create_server(("", 7001))
def echo():
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("", 7000))
    print("ready", flush=True)
    while True:
        datagrams.sendto(*datagrams.recvfrom(100))
threading.Thread(target=echo, daemon=True).start()
while True:
    connection, _ = stream.accept()
    while connection.recv(1 << 16):
        pass
    connection.sendall(b"x")
    connection.close()
"""

# Sends datagrams one after the other; prints of each how long it took there and back, or "lost".
PING = """
import socket, sys, time
host, number, patience = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.settimeout(patience)
for i in range(number):
    start = time.perf_counter()
    datagrams.sendto(b"%d" % i, (host, 7000))
    try:
        while datagrams.recv(100) != b"%d" % i:
            pass
        print(time.perf_counter() - start, flush=True)
    except TimeoutError:
        print("lost", flush=True)
"""

# Sends bytes over one connection; prints how long it took until the other side had them.
STREAM = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 7001))
start = time.perf_counter()
connection.sendall(bytes(int(sys.argv[2])))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
print(time.perf_counter() - start)
"""


@contextlib.contextmanager
def served(link):
    """Two hosts, the second of which serves."""
    with made([1, 1], link) as built:
        host = built.hosts["node2"]
        command = [*host.enter(), sys.executable, "-c", SERVER]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with server.stdout:
            require(server.stdout.readline() == "ready\n", "the server does not start")
        try:
            ping(built, 3)  # the hosts find each other's addresses
            yield built
        finally:
            server.kill()
            server.wait()


def from_first_host(built, script, *words):
    command = [*built.hosts["node1"].enter(), sys.executable, "-c", script, "node2", *words]
    return mpi.succeed(mpi.run(command, timeout=30), "a program on node1").output.split()


def ping(built, number, patience=1.0):
    """Round trips in seconds, None for each that was lost."""
    answers = from_first_host(built, PING, number, patience)
    return [None if answer == "lost" else float(answer) for answer in answers]


def latency():
    delay = 0.002
    with served(Relayed(delay)) as built:
        times = ping(built, 50)
    require(None not in times, "datagrams are lost")
    # There and back, each over the cables of both hosts.
    expected = 4 * delay
    print(f"    round trips of {min(times) * 1e3:.2f} to {max(times) * 1e3:.2f} ms")
    # The shortest: others wait for a core as well.
    right = expected <= min(times) < expected + 0.001
    require(right, f"the shortest round trip took {min(times)} s, expected {expected} s")


def bandwidth(link):
    size = 4 * 2**20
    with served(link) as built:
        took = float(from_first_host(built, STREAM, size)[0])
    rate = size * 8 / took / 1e6
    print(f"    {rate:.0f} Mbit/s ({link})")
    # What a bucket holds goes through at once.
    require(60 < rate < 110, f"{rate:.0f} Mbit/s over links of 100 Mbit/s")


def loss(link):
    """There and back is four times over a relay that loses a tenth, which leaves 66 %, or twice into
    a host that drops a fifth, which leaves 64 %."""
    with served(link) as built:
        times = ping(built, 200, 0.02)
    kept = sum(time is not None for time in times) / len(times)
    print(f"    {kept:.0%} of 200 round trips came back ({link})")
    require(0.5 < kept < 0.8, f"{kept:.0%} of the round trips came back, expected 65 %")


def cut_and_mended():
    with served(Relayed()) as built:
        built.relays["node2"].tell("cut")
        cut = ping(built, 5, 0.05)
        built.relays["node2"].tell("mend")
        mended = ping(built, 5)
    require(cut == [None] * 5, f"round trips over a cut cable: {cut}")
    require(None not in mended, f"round trips over a mended cable: {mended}")


def relay_refuses():
    with made([1], Relayed()) as built:
        for line in ("delay", "delay -1", "loss 2", "speed 3"):
            try:
                built.relays["node1"].tell(line)
            except ValueError as why:
                require(f'"{line}" is not' in str(why), f"{line}: {why}")
            else:
                require(False, f"{line} is taken")
