// Launchers: detected from the environment variables that mpirun, srun and torchrun set.
#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "comm/launch.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

using Environment = std::map<std::string, std::string>;

RankEnvironment ranks_in(const Environment& variables) {
  return launched_ranks("mtl-train", [&](const char* name) -> const char* {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_in(const Environment& variables) {
  return test::error_of([&] { ranks_in(variables); }, Exit::usage);
}

}  // namespace

TEST_CASE("launch: a plain run has one rank") {
  RankEnvironment found = ranks_in({{"PATH", "/bin"}, {"WORLD_SIZE", "1"}, {"RANK", "0"}});
  CHECK(found.rank == 0);
  CHECK(found.world == 1);
  CHECK(found.local_size == 1);
  CHECK(found.launcher.empty());
  // A shell inside salloc, and a single-task job.
  CHECK(ranks_in({{"SLURM_NTASKS", "8"}}).world == 1);
  CHECK(ranks_in({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}).launcher == "");
  for (const char* alone : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID", "PMI_RANK", "RANK"}) {
    CAPTURE(alone);
    found = ranks_in({{alone, "2"}});
    CHECK(found.world == 1);
    CHECK(found.launcher == "");
  }
  // srun -n 1 inside an 8-task job.
  CHECK(ranks_in({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}).world == 1);
}

TEST_CASE("launch: mpirun's variables set the rank, also inside a Slurm job") {
  RankEnvironment found = ranks_in({{"OMPI_COMM_WORLD_RANK", "5"},
                                    {"OMPI_COMM_WORLD_SIZE", "8"},
                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                    {"PMIX_RANK", "5"},
                                    {"SLURM_NTASKS", "2"},  // mpirun inside a Slurm job
                                    {"SLURM_PROCID", "0"}});
  CHECK(found.rank == 5);
  CHECK(found.world == 8);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 4);
  CHECK(found.launcher == "mpirun");
}

TEST_CASE("launch: srun's variables set the rank, also on hosts with different numbers of tasks") {
  Environment variables = {{"PMIX_RANK", "6"},     {"SLURM_NTASKS", "11"}, {"SLURM_PROCID", "6"},
                           {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"},  {"SLURM_TASKS_PER_NODE", "4,1,3(x2)"}};
  RankEnvironment found = ranks_in(variables);
  CHECK(found.rank == 6);
  CHECK(found.world == 11);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 3);
  CHECK(found.launcher == "srun");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "4(x3)";
  CHECK(ranks_in(variables).local_size == 4);
  // A list that is malformed or too short: at least the tasks up to this one.
  for (const auto& [node, list, size] :
       {std::tuple{"2", "2(x3),3", 2}, std::tuple{"3", "2(x3),3", 3}, std::tuple{"4", "2(x3),3", 2},
        std::tuple{"1", "4,x,7", 2}, std::tuple{"1", "4(x,7", 2}, std::tuple{"0", "1", 2}}) {
    CAPTURE(list);
    variables["SLURM_NODEID"] = node;
    variables["SLURM_STEP_TASKS_PER_NODE"] = list;
    CHECK(ranks_in(variables).local_size == size);
  }
  variables.erase("SLURM_NODEID");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "4,5";
  CHECK(ranks_in(variables).local_size == 4);
  CHECK(ranks_in({{"PMIX_RANK", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}).local_size == 1);
}

TEST_CASE("launch: impossible launches are refused with the reason") {
  std::string torchrun = refusal_in({{"RANK", "3"},
                                     {"WORLD_SIZE", "16"},
                                     {"LOCAL_RANK", "3"},
                                     {"LOCAL_WORLD_SIZE", "8"},
                                     {"MASTER_ADDR", "node17"},
                                     {"MASTER_PORT", "29500"}});
  CHECK(test::contains(torchrun, "torchrun"));
  CHECK(test::contains(torchrun, "mpirun -n 16 -H node17:8,HOST1:8 mtl-train"));
  CHECK(test::contains(torchrun, "srun --mpi=pmix -n 16 mtl-train"));
  CHECK(test::contains(refusal_in({{"RANK", "0"}, {"WORLD_SIZE", "8"}}), "mpirun -n 8 mtl-train"));

  CHECK(test::contains(refusal_in({{"RANK", "0"}, {"WORLD_SIZE", "6"}, {"LOCAL_WORLD_SIZE", "2"}}),
                       "-H HOST0:2,HOST1:2,HOST2:2 mtl"));
  CHECK(test::contains(refusal_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}}),
                       "-H HOST0:1,HOST1:1 mtl"));
  CHECK(test::contains(refusal_in({{"RANK", "0"}, {"WORLD_SIZE", "6"}, {"LOCAL_WORLD_SIZE", "0"}}),
                       "mpirun -n 6 mtl-train"));
  CHECK(ranks_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world == 1);
  CHECK(ranks_in({{"WORLD_SIZE", "8"}}).world == 1);
  CHECK(ranks_in({{"PMI_SIZE", "4"}}).world == 1);
  CHECK(ranks_in({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}).world == 1);

  std::string srun = refusal_in({{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}});
  CHECK(test::contains(srun, "srun --mpi=pmix -n 2 mtl-train"));
  CHECK(test::contains(refusal_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "another MPI"));
}

TEST_CASE("launch: inconsistent variables are refused") {
  CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
                       "OMPI_COMM_WORLD_RANK=x"));
  CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "rank 4 of 4"));
  CHECK(test::contains(refusal_in({{"RANK", "0"}, {"WORLD_SIZE", "many"}}), "WORLD_SIZE=many"));
  CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "not an integer"));
  CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1000000001"}}),
                       "not an integer"));
  CHECK(ranks_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1000000000"}}).world == 1'000'000'000);
  CHECK(ranks_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).local_size == 1);
  for (const auto& [rank, size] : {std::pair{"2", "2"}, std::pair{"0", "0"}})
    CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "0"},
                                     {"OMPI_COMM_WORLD_SIZE", "4"},
                                     {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", size}}),
                         cat("mpirun reports rank 0 of 4, local rank ", rank, " of ", size)));
  CHECK(test::contains(refusal_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "0"}}), "rank 0 of 0"));
  CHECK(test::contains(refusal_in({{"PMIX_RANK", "4"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "4"}}),
                       "srun reports rank 4 of 4"));
  CHECK(announced_rank([](const char* name) { return name == std::string("RANK") ? "3" : nullptr; }) == 3);
  auto announced = [](const Environment& variables) {
    return announced_ranks([&](const char* name) -> const char* {
      auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK(announced({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).world == 2);
  CHECK(announced({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}}).world == 4);
  CHECK(announced({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}}).rank == 3);
  CHECK(announced({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).world == 1);  // in a batch script
  CHECK(announced({{"OMPI_COMM_WORLD_SIZE", "2"}}).world == 1);
  CHECK(announced({{"RANK", "1"}, {"WORLD_SIZE", "16"}}).launcher == "torchrun");
  for (const auto& [rank, world, found_rank, found_world] : {std::tuple{"5", "x", 5, 1}, std::tuple{"x", "7", 0, 7}}) {
    const RankEnvironment found = announced({{"RANK", rank}, {"WORLD_SIZE", world}});
    CHECK(found.rank == found_rank);
    CHECK(found.world == found_world);
  }
  CHECK(announced({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "9"}}).launcher == "mpirun");
  CHECK(announced({}).world == 1);
  CHECK(announced_rank([](const char*) -> const char* { return nullptr; }) == 0);
  for (const char* known : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    CHECK(announced_rank([&](const char* name) {
            return name == std::string(known) ? "2" : name == std::string("RANK") ? "4" : nullptr;
          }) == 2);
}
