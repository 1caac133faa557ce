#!/bin/bash
# One node. Submit with the program: sbatch cpu.sh ./app ARGUMENT…
#SBATCH --job-name=gpuar-cpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:05:00
#SBATCH --output=%x-%j.out

export OMPI_MCA_coll=gpuar
srun --mpi=pmix "$@"
