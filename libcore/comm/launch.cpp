#include "comm/launch.h"

#include <optional>

#include "base/error.h"

namespace mtl {

namespace {

class Variables {
 public:
  explicit Variables(const GetVariable& get) : get_(get) {}
  bool has(const char* name) const { return get_(name) != nullptr; }
  std::string text(const char* name) const {
    const char* value = get_(name);
    return value == nullptr ? "" : value;
  }
  /// Returns a variable's value, or nullopt if it is not set. Throws Error(usage) unless it is a number from 0 to 10^9.
  std::optional<int> number(const char* name) const {
    if (!has(name)) return {};
    auto value = parse_int(text(name));
    if (!value || *value < 0 || *value > 1'000'000'000)
      fail(Exit::usage, "environment: ", name, "=", text(name),
           " is not an integer from 0 to 1000000000; correct or unset it");
    return static_cast<int>(*value);
  }
  int number_or(const char* name, int fallback) const { return number(name).value_or(fallback); }

 private:
  const GetVariable& get_;
};

/// Parses a Slurm list such as "2(x3),1" and returns how many tasks run on node `node`. Returns 1 if the list is too
/// short or malformed.
int tasks_on_node(const std::string& list, int node) {
  int first = 0;
  for (const std::string& entry : split(list, ',')) {
    std::size_t bracket = entry.find("(x");
    auto tasks = parse_int(entry.substr(0, bracket));
    std::optional<std::int64_t> nodes = 1;
    if (bracket != std::string::npos) nodes = parse_int(split(entry.substr(bracket + 2), ')')[0]);
    if (!tasks || !nodes) break;
    if (node < first + *nodes) return static_cast<int>(*tasks);
    first += static_cast<int>(*nodes);
  }
  return 1;
}

void check_consistent(const RankEnvironment& found) {
  if (found.rank >= found.world || found.local_rank >= found.local_size)  // none is negative
    fail(Exit::usage, "environment: ", found.launcher, " reports rank ", found.rank, " of ", found.world,
         ", local rank ", found.local_rank, " of ", found.local_size,
         "; unset variables that an outer job has left behind");
}

[[noreturn]] void refuse_torchrun(const Variables& env, const std::string& program) {
  int world = env.number_or("WORLD_SIZE", 1), local = env.number_or("LOCAL_WORLD_SIZE", world);
  std::string hosts;
  if (local > 0 && local < world) {
    hosts = cat(" -H ", env.has("MASTER_ADDR") ? env.text("MASTER_ADDR") : "HOST0", ":", local);
    for (int host = 1; host < world / local; ++host) hosts += cat(",HOST", host, ":", local);
  }
  fail(Exit::usage, "torchrun (RANK=", env.text("RANK"), ", WORLD_SIZE=", world,
       ") cannot start this program; use mpirun -n ", world, hosts, " ", program,
       " ... once, on one host, with -H HOST:SLOTS,... or --hostfile FILE instead of --nnodes, --node_rank and "
       "--master_addr; under Slurm, use srun --mpi=pmix -n ",
       world, " ", program, " ...");
}

}  // namespace

RankEnvironment launched_ranks(const std::string& program, const GetVariable& get) {
  Variables env(get);
  RankEnvironment found;
  if (env.has("OMPI_COMM_WORLD_RANK") && env.has("OMPI_COMM_WORLD_SIZE")) {
    found = {.rank = *env.number("OMPI_COMM_WORLD_RANK"),
             .world = *env.number("OMPI_COMM_WORLD_SIZE"),
             .local_rank = env.number_or("OMPI_COMM_WORLD_LOCAL_RANK", 0),
             .local_size = env.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 1),
             .launcher = "mpirun"};
    check_consistent(found);
    return found;
  }
  // Within a job step, SLURM_NTASKS counts the step's tasks. A run from a shell under salloc has no SLURM_PROCID and is
  // a plain run.
  int tasks = env.number_or("SLURM_STEP_NUM_TASKS", env.number_or("SLURM_NTASKS", 1));
  bool is_task = env.has("SLURM_PROCID") && tasks > 1;
  if (is_task && env.has("PMIX_RANK")) {
    std::string per_node =
        env.has("SLURM_STEP_TASKS_PER_NODE") ? env.text("SLURM_STEP_TASKS_PER_NODE") : env.text("SLURM_TASKS_PER_NODE");
    int local_rank = env.number_or("SLURM_LOCALID", 0);
    int local_size = std::max(local_rank + 1, tasks_on_node(per_node, env.number_or("SLURM_NODEID", 0)));
    found = {.rank = *env.number("SLURM_PROCID"),
             .world = tasks,
             .local_rank = local_rank,
             .local_size = local_size,
             .launcher = "srun"};
    check_consistent(found);
    return found;
  }
  if (is_task) {
    fail(Exit::usage, "this Slurm job has ", tasks,
         " tasks, but srun did not connect them over PMIx; start the program with srun --mpi=pmix -n ", tasks, " ",
         program, " ... (`srun --mpi=list` shows whether Slurm has pmix), or with mpirun -n ", tasks, " ", program,
         " ... inside the job; to start a single process, use srun -n 1");
  }
  if (env.number_or("PMI_SIZE", 1) > 1 && env.has("PMI_RANK")) {
    fail(Exit::usage, "the mpirun of another MPI (PMI_SIZE=", env.text("PMI_SIZE"),
         ") cannot start this program, which was built with Open MPI; use Open MPI's mpirun: mpirun -n ",
         env.text("PMI_SIZE"), " ", program, " ...");
  }
  if (env.has("RANK") && env.number_or("WORLD_SIZE", 1) > 1) refuse_torchrun(env, program);
  return found;
}

RankEnvironment announced_ranks(const GetVariable& get) {
  struct Names {
    const char *launcher, *rank, *world;
  };
  for (const Names& names : {Names{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                             Names{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                             Names{"mpirun", "PMI_RANK", "PMI_SIZE"}, Names{"torchrun", "RANK", "WORLD_SIZE"}}) {
    const char *rank = get(names.rank), *world = get(names.world);
    if (rank == nullptr || world == nullptr) continue;
    RankEnvironment found;
    found.rank = static_cast<int>(parse_int(rank).value_or(0));
    found.world = static_cast<int>(parse_int(world).value_or(1));
    found.launcher = names.launcher;
    return found;
  }
  return {};
}

int announced_rank(const GetVariable& get) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}) {
    const char* value = get(name);
    auto rank = value == nullptr ? std::nullopt : parse_int(value);
    if (rank) return static_cast<int>(*rank);
  }
  return 0;
}

}  // namespace mtl
