"""The allreduces of mpi4py, on NumPy buffers and on Python objects. Every result is checked against
what NumPy computes alone; rank 0 prints the numbers, so that two MPI libraries can be compared."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def data(of_rank, count, dtype):
    """The contribution of a rank, which every rank can compute."""
    return np.random.default_rng(1000 * of_rank + count).integers(1, 100, count).astype(dtype)


def everything(count, dtype):
    return np.stack([data(r, count, dtype) for r in range(size)])


def report(name, *numbers):
    if rank == 0:
        print("result", name, *[repr(getattr(n, "tolist", lambda n=n: n)()) for n in numbers])


def buffers():
    for dtype in (np.int32, np.int64, np.float32, np.float64, np.complex128):
        for count in (1, 7, 1000, 100_003):
            result = np.empty(count, dtype)
            world.Allreduce(data(rank, count, dtype), result, op=MPI.SUM)
            # Small integers: every sum is exact, in any order.
            assert np.array_equal(result, everything(count, dtype).sum(axis=0)), (dtype, count)
        report(f"sum.{np.dtype(dtype).name}", abs(result).sum())
    largest = np.empty(1000, np.uint16)
    world.Allreduce(data(rank, 1000, np.uint16), largest, op=MPI.MAX)
    assert np.array_equal(largest, everything(1000, np.uint16).max(axis=0))
    bits = np.empty(1000, np.uint64)
    world.Allreduce(data(rank, 1000, np.uint64), bits, op=MPI.BXOR)
    assert np.array_equal(bits, np.bitwise_xor.reduce(everything(1000, np.uint64)))
    report("max_and_bits", largest.sum(), bits.sum())


def in_place():
    for count in (1, 1000, 100_003):
        values = data(rank, count, np.float64) / 7
        world.Allreduce(MPI.IN_PLACE, values, op=MPI.SUM)
        assert np.allclose(values, everything(count, np.float64).sum(axis=0) / 7, rtol=1e-13)
        report(f"in_place.{count}", values.sum(), values[-1])


def lowest_and_where():
    pairs = np.zeros(500, np.dtype([("value", np.float64), ("where", np.int32)], align=True))
    pairs["value"], pairs["where"] = data(rank, 500, np.float64), rank
    result = np.zeros_like(pairs)
    world.Allreduce([pairs, MPI.DOUBLE_INT], [result, MPI.DOUBLE_INT], op=MPI.MINLOC)
    values = everything(500, np.float64)
    assert np.array_equal(result["value"], values.min(axis=0))
    assert np.array_equal(result["where"], values.argmin(axis=0))  # the lowest rank on ties
    report("minloc", result["where"].sum())


def nonblocking():
    """Many at once, completed in another order than they were started in."""
    counts = [1 + 37 * i for i in range(60)]
    inputs = [data(rank, count, np.int64) for count in counts]
    outputs = [np.empty(count, np.int64) for count in counts]
    requests = [world.Iallreduce(i, o, op=MPI.SUM) for i, o in zip(inputs, outputs)]
    MPI.Request.Waitall(requests[40:])
    while not MPI.Request.Testall(requests[:20]):
        pass
    MPI.Request.Waitall(requests[20:40][::-1])
    for count, output in zip(counts, outputs):
        assert np.array_equal(output, everything(count, np.int64).sum(axis=0)), count
    report("nonblocking", *[output.sum() for output in outputs[::20]])


def own_operation():
    """2 × 2 matrix products, which do not commute: the order of ranks must be kept."""

    def multiply(left, right, _):
        a = np.frombuffer(left, np.float64).reshape(-1, 2, 2)
        b = np.frombuffer(right, np.float64).reshape(-1, 2, 2)
        b[:] = a @ b

    product = MPI.Op.Create(multiply, commute=False)
    matrix = MPI.DOUBLE.Create_contiguous(4).Commit()
    mine = data(rank, 400, np.float64)
    result = np.empty(400)
    world.Allreduce([mine, 100, matrix], [result, 100, matrix], op=product)
    expected = np.tile(np.eye(2), (100, 1, 1))
    for other in everything(400, np.float64):
        expected = expected @ other.reshape(-1, 2, 2)
    assert np.array_equal(result, expected.ravel())
    report("own_operation", result.sum())
    matrix.Free()
    product.Free()


def objects():
    """Pickled: mpi4py makes these of point-to-point calls."""
    report("objects", world.allreduce(rank + 1), world.allreduce(0.1 * rank, op=MPI.MAX))
    merged = world.allreduce({rank: str(rank)}, op=lambda a, b: {**a, **b})
    assert merged == {r: str(r) for r in range(size)}
    assert world.allreduce([rank], op=MPI.SUM) == list(range(size))


def communicators():
    """Reversed, halved and duplicated; traffic on all of them at once."""
    reverse = world.Split(0, -rank)
    half = world.Split(rank % 2, rank)
    again = world.Dup()
    sums = [np.empty(5000) for _ in range(3)]
    mine = data(rank, 5000, np.float64)
    requests = [c.Iallreduce(mine, s) for c, s in zip((reverse, half, again), sums)]
    total = np.empty(5000)
    world.Allreduce(mine, total)
    MPI.Request.Waitall(requests)
    assert np.array_equal(sums[0], total) and np.array_equal(sums[2], total)
    members = everything(5000, np.float64)[rank % 2 :: 2]
    assert np.array_equal(sums[1], members.sum(axis=0))
    report("communicators", total.sum(), sums[1].sum())
    for comm in (reverse, half, again):
        comm.Free()


def conjugate_gradient():
    """A Laplacian in one dimension, solved with dot products over all ranks."""
    mine = np.arange(rank, 240, size)

    def dot(a, b):
        result = np.array(a @ b)
        world.Allreduce(MPI.IN_PLACE, result)
        return float(result)

    def apply(v):
        whole = np.zeros(242)
        whole[1 + mine] = v
        world.Allreduce(MPI.IN_PLACE, whole)
        return 2 * v - whole[mine] - whole[mine + 2]

    x, r = np.zeros(len(mine)), 1.0 + mine % 3
    p, rr, steps = r.copy(), dot(r, r), 0
    while rr > 1e-16:
        q = apply(p)
        alpha = rr / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        previous, rr = rr, dot(r, r)
        p, steps = r + rr / previous * p, steps + 1
        assert steps < 1000
    report("conjugate_gradient", steps, dot(x, x))


for part in (
    buffers,
    in_place,
    lowest_and_where,
    nonblocking,
    own_operation,
    objects,
    communicators,
    conjugate_gradient,
):
    part()
