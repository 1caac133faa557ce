"""Trains a small model with PyTorch's DistributedDataParallel, whose gradients travel by MPI_Iallreduce
while the backward pass goes on, and compares every gradient with the one that gloo gives.

    mpirun -n 2 --mca coll gpuar --mca coll_gpuar_progress_thread 1 python3 docs/python/ddp.py
"""

import os
import time

import torch
from mpi4py import MPI
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

COMM = MPI.COMM_WORLD
STEPS = 10
exposed = []  # seconds that the backward pass had to wait for a bucket
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def mpi_hook(pending, bucket):
    """Starts an allreduce for each bucket of gradients as soon as it is full; the last one waits for
    all. What DDP wants of a bucket is the average."""
    gradients, future = bucket.buffer(), torch.futures.Future()
    gradients.div_(COMM.size)
    if gradients.is_cuda:
        torch.cuda.current_stream().synchronize()  # MPI wants the work on its buffer done
    buffer = gradients if gradients.is_cuda else gradients.numpy()
    pending.append((COMM.Iallreduce(MPI.IN_PLACE, buffer), future, gradients))
    if bucket.is_last():
        for request, ready, averages in pending:
            start = time.perf_counter()
            request.Wait()
            exposed.append(time.perf_counter() - start)
            ready.set_result(averages)
        pending.clear()
    return future


def model():
    torch.manual_seed(1)  # the same on all ranks
    sizes = (256, 512, 512, 512, 10)
    layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(sizes, sizes[1:])]
    return DistributedDataParallel(nn.Sequential(*layers).to(DEVICE), bucket_cap_mb=0.5)


def train(hook):
    """The gradients of each step."""
    network = model()
    if hook:
        network.register_comm_hook([], hook)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    torch.manual_seed(100 + COMM.rank)  # each rank has data of its own
    steps = []
    for _ in range(STEPS):
        inputs, labels = torch.randn(32, 256).to(DEVICE), torch.randint(0, 10, (32,)).to(DEVICE)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        steps.append([parameter.grad.clone() for parameter in network.parameters()])
        optimizer.step()
    return steps


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = str(COMM.bcast(29500 + os.getpid() % 10000))
    distributed.init_process_group("gloo", rank=COMM.rank, world_size=COMM.size)
    by_mpi, by_gloo = train(mpi_hook), train(None)
    largest = max(
        (one - other).abs().max().item()
        for step, reference in zip(by_mpi, by_gloo)
        for one, other in zip(step, reference)
    )
    assert largest < 1e-6, f"a gradient differs by {largest}"
    if COMM.rank == 0:
        print(f"{STEPS} steps on {COMM.size} ranks: gradients differ from gloo's by {largest:.1e} at most")
        print(f"exposed: {1e3 * sum(exposed) / STEPS:.2f} ms a step")
    distributed.destroy_process_group()


main()
