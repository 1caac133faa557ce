"""PETSc solves Poisson's equation on a square, on a distributed grid, by several Krylov methods:
cg and gmres reduce with MPI_Allreduce (dot products and norms), pipecg with MPI_Iallreduce. Rank 0
prints the numbers, so that two MPI libraries can be compared."""

import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402  (takes its options from init)

SIDE = 65

grid = PETSc.DMDA().create([SIDE, SIDE], stencil_width=1)
matrix = grid.createMatrix()
(x0, x1), (y0, y1) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for y in range(y0, y1):
    for x in range(x0, x1):
        row.index = (x, y)
        for dx, dy in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)):
            if 0 <= x + dx < SIDE and 0 <= y + dy < SIDE:
                column.index = (x + dx, y + dy)
                matrix.setValueStencil(row, column, -1.0 if dx or dy else 4.0)
matrix.assemble()

wanted = grid.createGlobalVec()
values = grid.getVecArray(wanted)
for y in range(y0, y1):
    for x in range(x0, x1):
        values[x, y] = (x + 1) * (SIDE - x) * (1 + y % 5) / SIDE**2
right = matrix.createVecLeft()
matrix.mult(wanted, right)

for method in ("cg", "pipecg", "gmres"):
    solver = PETSc.KSP().create()
    solver.setOperators(matrix)
    solver.setType(method)
    solver.getPC().setType("jacobi")
    solver.setTolerances(rtol=1e-10, max_it=2000)
    found = right.duplicate()
    solver.solve(right, found)
    norm = found.norm()
    found.axpy(-1.0, wanted)
    error = found.norm(PETSc.NormType.NORM_INFINITY)
    assert solver.getConvergedReason() > 0, (method, solver.getConvergedReason())
    assert error < 1e-5, (method, error)
    if PETSc.COMM_WORLD.rank == 0:
        print("result", method, solver.getIterationNumber(), repr(norm))
