// Rank and world size, from the environment that the launcher set. Nothing here calls MPI: a plain run never
// initializes it, and configuration errors are reported before it starts.
//
// Ranks are started by Open MPI's mpirun (OMPI_COMM_WORLD_*) or by `srun --mpi=pmix` (PMIX_RANK and SLURM_*). Other
// launchers would start independent runs; they are recognized and refused, with the command to use instead.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace mtl {

struct RankEnvironment {
  int rank = 0, world = 1;
  int local_rank = 0, local_size = 1;  // among the job's ranks on this host
  std::string launcher;                // "mpirun", "srun", or empty for a plain run
};

/// Returns a variable's value, or null: getenv, or a test's function.
using GetVariable = std::function<const char*(const char* name)>;

/// Returns this process's rank and the sizes. Throws Error(usage) for torchrun's variables, for srun without
/// --mpi=pmix, for another MPI's mpirun, and for variables that are not numbers or contradict each other. `program`:
/// the command to name in the message.
RankEnvironment launched_ranks(const std::string& program = "mtl-train");
RankEnvironment launched_ranks(const std::string& program, const GetVariable& get);

/// Returns the rank and world size that any launcher set, including those that launched_ranks() refuses; only rank,
/// world and launcher are set. A Slurm batch script runs once, whatever the size of its job: its world is 1.
RankEnvironment announced_ranks(const GetVariable& get);

/// Time that the other ranks give rank 0 to report an error that is probably common to all.
inline constexpr auto kRankZeroFirst = std::chrono::seconds(2);

/// Returns the rank that any launcher set, including those that launched_ranks() refuses; 0 without a launcher. Rank 0
/// reports errors of the environment first.
int announced_rank(const GetVariable& get);

}  // namespace mtl
