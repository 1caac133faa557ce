#!/bin/bash
# One rank for each GPU. Every rank sees all GPUs of its node, so that UCX can copy from one to another;
# the program takes the one of its local rank, $SLURM_LOCALID.
#SBATCH --job-name=gpuar-gpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH --time=00:05:00
#SBATCH --output=%x-%j.out

export OMPI_MCA_coll=gpuar
srun --mpi=pmix --gpu-bind=none "$@"
