#!/bin/bash
# Several nodes; the report at the end says how much of the time ranks waited for late ones.
#SBATCH --job-name=gpuar-nodes
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:05:00
#SBATCH --output=%x-%j.out

export OMPI_MCA_coll=gpuar
export OMPI_MCA_coll_gpuar_report=1
srun --mpi=pmix "$@"
