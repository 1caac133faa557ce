#!/bin/bash
# An array of two jobs that differ in one parameter: the algorithm chosen, and one forced.
#SBATCH --job-name=gpuar-array
#SBATCH --array=0-1
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:05:00
#SBATCH --output=%x-%A-%a.out

algorithms=(auto ring)
export OMPI_MCA_coll=gpuar
export OMPI_MCA_coll_gpuar_algorithm=${algorithms[SLURM_ARRAY_TASK_ID]}
srun --mpi=pmix "$@"
