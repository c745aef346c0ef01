// Finds the rank and world size in environment variables set by the launcher. Nothing here calls MPI: a plain run never
// initializes MPI, and configuration errors are reported before MPI starts.
//
// We support Open MPI's mpirun (OMPI_COMM_WORLD_*) and `srun --mpi=pmix` (PMIX_RANK and SLURM_*). Other launchers would
// start independent runs, so we reject them. The message shows the command to use instead.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <functional>
#include <string>

namespace mtl {

struct RankEnvironment {
  int rank = 0, world = 1;
  int local_rank = 0, local_size = 1;  // this rank's index on its host, and how many ranks of this job run there
  std::string launcher;                // "mpirun", "srun", or empty for a plain run
};

/// Returns an environment variable's value, or null. This is getenv(), except in tests.
using GetVariable = std::function<const char*(const char* name)>;

/// Returns this process's rank and the world size, globally and on this host. Throws Error(usage) if
/// - the process was started by torchrun, by srun without --mpi=pmix, or by another MPI's mpirun,
/// - a variable is not a number, or
/// - variables contradict each other.
/// `program` is the command to show in the message.
RankEnvironment launched_ranks(const std::string& program, const GetVariable& get = ::getenv);

/// Returns the rank and world size set by the launcher, even if launched_ranks() rejects that launcher. Sets only
/// `rank`, `world` and `launcher`. In a Slurm batch script, `world` is 1 no matter how large the job is, because the
/// script runs only once.
RankEnvironment announced_ranks(const GetVariable& get = ::getenv);

/// How long the other ranks wait before they report an error that probably affects all ranks. Gives rank 0 time to
/// report it first.
inline constexpr auto kRankZeroFirst = std::chrono::seconds(2);

/// Returns the rank set by the launcher, even if launched_ranks() rejects that launcher, or 0 without a launcher. Lets
/// rank 0 report environment errors first.
int announced_rank(const GetVariable& get = ::getenv);

}  // namespace mtl
