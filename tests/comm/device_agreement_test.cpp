// Rank devices: how each rank picks its GPU and all ranks agree on cpu or cuda. Needs no GPU.
#include "comm/device_agreement.h"

#include <doctest/doctest.h>

#include "tests/comm/thread_group.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

GpuPlace place(int local_rank, int local_size, int visible, std::optional<std::int64_t> gpus_per_node = {},
               const std::string& variable = "") {
  RankEnvironment launched;
  launched.rank = local_rank;
  launched.world = launched.local_size = local_size;
  launched.local_rank = local_rank;
  return gpu_of_rank(launched, visible, gpus_per_node,
                     [&](const char* name) { return variable == name ? "0" : nullptr; });
}

struct Agreed {
  Device device;
  std::string text, error;
};

/// Returns the device that two ranks on a host agree on, as seen by the first rank.
Agreed agree(const std::string& name, const RankDevice& first, const RankDevice& second,
             const std::string& variable = "") {
  Agreed out{};
  test::run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
    try {
      const DeviceChoice choice = agree_on_device(name, rank == 0 ? first : second, {"a", "a"}, groups.world(),
                                                  [&](const char* key) { return variable == key ? "1" : nullptr; });
      if (rank == 0) out = {choice.device, choice.text, ""};
    } catch (const Error& error) {
      if (rank == 0) out.error = error.what();
    }
  });
  return out;
}

RankDevice gpu(const std::string& bus, const std::string& name = "NVIDIA H100") {
  RankDevice out;
  out.choice.device = Device::cuda;
  out.name = name;
  out.bus = bus;
  return out;
}
RankDevice no_gpu(const std::string& why) {
  RankDevice out;
  out.choice.why_not = why;
  return out;
}

}  // namespace

TEST_CASE("rank device: one GPU per rank, by its index on the host") {
  CHECK(place(0, 1, 8).ordinal == 0);
  CHECK(place(5, 8, 8).ordinal == 5);
  CHECK(place(5, 8, 8).problem.empty());
  CHECK(place(1, 2, 8).ordinal == 1);
}

TEST_CASE("rank device: more ranks than GPUs are refused with the remedy") {
  CHECK(place(0, 4, 2).problem.find("4 ranks run on this host, which shows 2 GPUs to them; start at most 2 per host") ==
        0);
  CHECK(!place(1, 2, 1).problem.empty());
  CHECK(place(3, 4, 8, 2).problem.find("4 ranks run on this host, but --gpus-per-node is 2") == 0);
  CHECK(place(1, 2, 8, 2).problem.empty());
  // Each rank sees only its own GPU. The ranks compare them later.
  CHECK(place(1, 2, 1, {}, "CUDA_VISIBLE_DEVICES").ordinal == 0);
  CHECK(place(1, 2, 1, {}, "CUDA_VISIBLE_DEVICES").problem.empty());
  CHECK(!place(2, 3, 2, {}, "CUDA_VISIBLE_DEVICES").problem.empty());
  // Tests may run multiple ranks on one GPU.
  CHECK(place(3, 4, 2, {}, "NCCL_HOSTID").ordinal == 1);
  CHECK(place(3, 4, 2, {}, "NCCL_HOSTID").problem.empty());
}

TEST_CASE("rank device: ranks compute on GPUs if each has one") {
  const Agreed both = agree("auto", gpu("1b"), gpu("2b"));
  CHECK(both.device == Device::cuda);
  CHECK(both.text == "computing on 2 GPUs (NVIDIA H100)");
  CHECK(
      agree("auto", gpu("1b"), gpu("2b", "NVIDIA A100")).text ==
      "computing on 2 GPUs of different kinds: 1 x NVIDIA A100 (first: rank 1 on a), 1 x NVIDIA H100 (first: rank 0 on "
      "a); the slowest one sets the pace, and each measures algorithms of its own");
  const Agreed one = agree("auto", gpu("1b"), no_gpu("the driver is too old"));
  CHECK(one.device == Device::cpu);
  CHECK(one.text == "computing on the CPUs, because of rank 1 (a): the driver is too old");
  const Agreed neither = agree("auto", no_gpu(""), no_gpu(""));
  CHECK(neither.device == Device::cpu);
  CHECK(neither.text.empty());
}

TEST_CASE("rank device: two ranks do not share a GPU") {
  const Agreed shared = agree("cuda", gpu("1b"), gpu("1b"));
  CHECK(shared.error.find("ranks 0 and 1 of a have the same GPU (1b); start at most") != std::string::npos);
  const Agreed automatic = agree("auto", gpu("1b"), gpu("1b"));
  CHECK(automatic.device == Device::cpu);
  CHECK(automatic.text.find("computing on the CPUs: ranks 0 and 1 of a have the same GPU") == 0);
  CHECK(agree("cuda", gpu("1b"), gpu("1b"), "NCCL_HOSTID").device == Device::cuda);
}

TEST_CASE(
    "rank device: all ranks know the GPU with the least free memory, and the error of a GPU that cannot be used") {
  std::vector<RankMemory> least(3);
  std::vector<std::string> errors(3);
  test::run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
    const std::size_t free[] = {std::size_t{70} << 30, std::size_t{12} << 30, std::size_t{12} << 30};
    least[rank] = least_free_memory([&] { return CudaMemory{free[rank], std::size_t{80} << 30}; }, groups.world());
    const auto broken = [&] {
      if (rank == 1) fail(Exit::failure, "the GPU is lost");
      return CudaMemory{};
    };
    errors[rank] = test::error_of([&] { least_free_memory(broken, groups.world()); }, Exit::failure);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(least[rank].rank == 1);
    CHECK(least[rank].memory.free == std::size_t{12} << 30);
    CHECK(least[rank].memory.total == std::size_t{80} << 30);
    CHECK(errors[rank].find("the GPU is lost") != std::string::npos);
  }
}
