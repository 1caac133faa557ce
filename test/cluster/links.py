"""The cables of a cluster: what connects the interface eth0 of a host to a port of the switch.

A cable has a way to say what it is (str), and `plug(switch, host, port, stack)`, which makes it
between two holders of namespaces; `stack` ends what runs for it.
"""

import math
import shutil
import subprocess
from dataclasses import dataclass

from lanes import BUILD

RELAY = BUILD / "test" / "cluster" / "relay"
UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


class Unavailable(Exception):
    """Hosts cannot be made here; the text says why."""


def bits_per_second(rate):
    """Of a rate as tc has it: "1gbit", "500mbit"."""
    number = rate.rstrip("kmgbit")
    return float(number) * UNITS[rate[len(number) :]]


def percent(probability):
    return f"{probability * 100:g} %"


@dataclass(frozen=True)
class Veth:
    """A pair of virtual Ethernet devices, shaped by the kernel: a token bucket limits the bandwidth
    of each direction, iptables drops packets at random. Latency is what it is."""

    rate: str = None  # as tc has it: "1gbit"; None: unlimited
    loss: float = 0  # probability, of each packet that reaches a host

    def __str__(self):
        what = f"{self.rate} by a token bucket" if self.rate else "as fast as they go"
        loss = f", {percent(self.loss)} lost by iptables" if self.loss else ""
        return f"veth pairs, {what}{loss}"

    def plug(self, switch, host, port, _):
        switch.do(f"ip link add {port} type veth peer name eth0 netns {host.process.pid}")
        if self.rate:
            # A bucket that holds a few of the largest packets, and a queue of some milliseconds.
            shape = f"root tbf rate {self.rate} burst 256kb latency 20ms"
            switch.do(f"tc qdisc add dev {port} {shape}")
            host.do(f"tc qdisc add dev eth0 {shape}")
        if self.loss:
            if not shutil.which("iptables"):
                raise Unavailable("iptables is not installed (Debian package iptables)")
            # On the way in: a packet dropped on the way out is known to its sender at once.
            chance = f"-m statistic --mode random --probability {self.loss} -j DROP"
            host.do(f"iptables -A INPUT -i eth0 {chance}")


class Relay:
    """The program between the two ends of one cable."""

    def __init__(self, *ends):
        """`ends` as (holder, device)."""
        if not RELAY.exists():
            raise Unavailable(f"{RELAY} is not built")
        self.process = subprocess.Popen(
            [RELAY, *(f"{holder.process.pid}:{device}" for holder, device in ends)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt from the keyboard is for the owner alone
        )
        if self.process.stdout.readline() != "ready\n":
            why = self.process.communicate()[1].strip()
            raise Unavailable(f"TAP devices cannot be made: {why}")

    def tell(self, line):
        """Changes the cable: "cut", "delay 0.001", …; see relay.cpp."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "done":
            raise ValueError(answer or f"the relay is gone: {self.process.stderr.read().strip()}")

    def end(self):
        self.process.communicate()  # closes its input


@dataclass(frozen=True)
class Relayed:
    """A TAP device at each end and a relay of ours between them: it delays and paces frames, loses
    some, and can be cut while a program runs."""

    delay: float = 0  # seconds, in each direction
    rate: str = None  # as tc has it: "1gbit"; None: unlimited
    loss: float = 0  # probability, of each frame

    def __str__(self):
        loss = f", {percent(self.loss)} lost" if self.loss else ""
        rate = self.rate or "as fast as it goes"
        return f"TAP devices with a relay between, {rate}, {self.delay * 1e6:g} µs{loss}"

    def plug(self, switch, host, port, stack):
        relay = Relay((host, "eth0"), (switch, port))
        stack.callback(relay.end)
        relay.tell(f"delay {self.delay}")
        relay.tell(f"rate {bits_per_second(self.rate) if self.rate else 0}")
        relay.tell(f"loss {self.loss}")
        return relay
