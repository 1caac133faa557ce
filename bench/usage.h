// The frame of the tools that run under MPI. Help and usage errors come before MPI is up, and once
// for all ranks.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace bench {

// Prints on rank 0 alone, as far as the launcher says who that is; returns the exit status.
inline int usage(const CLI::App& app, const CLI::ParseError& error) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr && std::string(rank) != "0") return error.get_exit_code();
  }
  return app.exit(error);
}

// Calls run() while MPI is up; what it throws is said and ends the job. Returns the exit status.
template <class Run>
int with_mpi(const char* tool, int argc, char** argv, Run run) {
  MPI_Init(&argc, &argv);
  try {
    run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", tool, error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}

}  // namespace bench
