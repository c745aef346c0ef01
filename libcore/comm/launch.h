// How many processes this job has, and which of them this one is, read from what a launcher put into the environment.
// Nothing here touches MPI: a plain run never pays for it, and configuration errors come before it.
//
// Ranks are started by Open MPI's mpirun (OMPI_COMM_WORLD_*) or by `srun --mpi=pmix` (PMIX_RANK and SLURM_*). Other
// launchers would start as many runs that know nothing of each other; those are recognized, and refused with the
// command that does what was meant.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace mtl {

struct RankEnvironment {
  int rank = 0, world = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  std::string launcher;                // "mpirun", "srun", or empty for a plain run
};

/// A variable's value, or null: getenv, or a test's own.
using GetVariable = std::function<const char*(const char* name)>;

/// Throws Error(usage) for torchrun's variables, for srun without --mpi=pmix, for another MPI's mpirun, and for
/// variables that contradict each other. `program` is what the message tells the user to start.
RankEnvironment launched_ranks(const std::string& program = "mtl-train");
RankEnvironment launched_ranks(const std::string& program, const GetVariable& get);

/// What any launcher, also a refused one, says of the processes that it started with this one: rank, world and launcher
/// are set. A Slurm batch script runs once, whatever the size of its job: its world is 1.
RankEnvironment announced_ranks(const GetVariable& get);

/// How long the other ranks leave it to the first to tell what is most likely wrong with all.
inline constexpr auto kRankZeroFirst = std::chrono::seconds(2);

/// The rank that any launcher, also a refused one, gave this process; 0 when there is none. It decides who is first to
/// tell that the environment is wrong.
int announced_rank(const GetVariable& get);

}  // namespace mtl
