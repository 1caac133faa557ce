#!/bin/bash
# The same by mpirun, which asks Slurm for the nodes of the allocation.
#SBATCH --job-name=gpuar-mpirun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:05:00
#SBATCH --output=%x-%j.out

mpirun --mca coll gpuar "$@"
