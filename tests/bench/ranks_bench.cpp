// Times communication between ranks: all-reduce compared with MPI's own, bf16 compared with the same number of fp32
// bytes, the summation alone, and a message's round trip.
//   mpirun -n 4 build/release/bin/mtl_bench_ranks
// With the argument "links", prints only what mtl-topo plan asks for: the rate and the latency of the ranks' links.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

#include "base/console.h"
#include "comm/mpi_session.h"
#include "comm/rank_sums.h"

using namespace mtl;

namespace {

Stream stream(Device::cpu);

/// Returns microseconds per call: the median over `rounds` measurements, each with `calls` calls.
double time_us(Communicator& group, int rounds, int calls, const std::function<void()>& call) {
  std::vector<double> times;
  float x = 0;
  for (int round = 0; round < rounds; ++round) {
    group.all_reduce(stream, Tensor(&x, DType::f32, {1})).join();  // synchronizes the ranks
    double start = now_seconds();
    for (int i = 0; i < calls; ++i) call();
    times.push_back((now_seconds() - start) / calls * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

void mpi_all_reduce(std::vector<float>& data) {
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                 &request);
  int done = 0;
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

void compare_all_reduce(Communicator& group, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float), 1e-30f);
  Tensor tensor(data.data(), DType::f32, {static_cast<std::int64_t>(data.size())});
  int calls = bytes > (8 << 20) ? 1 : bytes > (64 << 10) ? 20 : 1000;
  double own = time_us(group, 7, calls, [&] { group.all_reduce(stream, tensor).join(); });
  Tensor halves(data.data(), DType::bf16, {2 * std::ssize(data)});
  double bf16 = time_us(group, 7, calls, [&] { group.all_reduce(stream, halves).join(); });
  double mpi = time_us(group, 7, calls, [&] { mpi_all_reduce(data); });
  if (group.rank() == 0)
    std::printf(
        "all-reduce %10zu bytes, %d ranks: %10.1f us, in bf16 %10.1f us, MPI_Iallreduce %10.1f us, ratio %.2f\n", bytes,
        group.size(), own, bf16, mpi, own / mpi);
}

/// On a single rank, times the summation of `ranks` inputs, `bytes` bytes each, and a memcpy of each input.
void time_sums(DType dtype, std::size_t ranks, std::size_t bytes) {
  std::vector<std::byte> inputs(ranks * bytes), out(bytes);
  std::vector<const std::byte*> sources;
  for (std::size_t r = 0; r < ranks; ++r) sources.push_back(inputs.data() + r * bytes);
  SelfCommunicator self;
  int calls = static_cast<int>((std::size_t{256} << 20) / bytes);
  double sum = time_us(self, 7, calls, [&] { sum_in_rank_order(dtype, out.data(), sources, bytes); });
  double copy = time_us(self, 7, calls, [&] {
    for (const std::byte* source : sources) std::memcpy(out.data(), source, bytes);
  });
  std::printf("sum of %zu x %10zu bytes of %-8s: %10.1f us, %5.1f GB/s read, memcpy of all inputs %10.1f us\n", ranks,
              bytes, name_of(dtype), sum, double(ranks * bytes) / sum / 1e3, copy);
}

void ping_pong(Communicator& group, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float));
  Tensor tensor(data.data(), DType::f32, {static_cast<std::int64_t>(data.size())});
  auto round_trip = [&] {
    if (group.rank() == 0) {
      group.send(stream, tensor, 1, Channel::activations).join();
      group.receive(stream, tensor, 1, Channel::activations).join();
    } else if (group.rank() == 1) {
      group.receive(stream, tensor, 0, Channel::activations).join();
      group.send(stream, tensor, 0, Channel::activations).join();
    }
  };
  double us = time_us(group, 7, bytes > (1 << 20) ? 5 : 1000, round_trip);
  if (group.rank() == 0) std::printf("ping-pong  %10zu bytes: %10.2f us one way\n", bytes, us / 2);
}

/// Prints the rate and the latency with which the times of a small and of a large all-reduce agree. A rank sends
/// 2 (p-1)/p of the bytes, and waits for the others twice. The large one passes over more memory than caches hold, as
/// gradients do.
void print_links(Communicator& group) {
  const std::size_t small = 4 << 10, large = 4 << 20, pieces = 16;
  std::vector<float> data(pieces * large / sizeof(float), 1e-30f);
  std::size_t piece = 0;
  const auto reduce = [&](std::size_t bytes) {
    float* part = data.data() + (piece++ % pieces) * large / sizeof(float);
    group.all_reduce(stream, Tensor(part, DType::f32, {std::int64_t(bytes / sizeof(float))})).join();
  };
  const double small_us = time_us(group, 7, 1000, [&] { reduce(small); });
  const double large_us = time_us(group, 7, 2 * pieces, [&] { reduce(large); });
  const double sent = 2.0 * (group.size() - 1) / group.size();
  if (group.rank() == 0)
    std::printf("{\"inside_gbs\": %.3f, \"inside_us\": %.3f}\n",
                sent * double(large - small) / (large_us - small_us) * 1e-3, small_us / (2 * (group.size() - 1)));
}

}  // namespace

int main(int argc, char** argv) {
  RankEnvironment launched = launched_ranks("mtl_bench_ranks");
  if (launched.world < 2) return 2;
  MpiSession session(launched);
  std::vector<int> ranks(static_cast<std::size_t>(launched.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = session.group(ranks, "bench");
  if (argc > 1 && argv[1] == std::string("links")) {
    print_links(*group);
    return 0;
  }
  for (std::size_t bytes : {4u << 10, 64u << 10, 1u << 20, 16u << 20, 64u << 20}) compare_all_reduce(*group, bytes);
  if (group->rank() == 0)
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (std::size_t inputs : {2u, 3u})
        for (std::size_t bytes : {128u << 10, 16u << 20}) time_sums(dtype, inputs, bytes);
  for (std::size_t bytes : {4u, 4u << 10, 1u << 20, 16u << 20}) ping_pong(*group, bytes);
}
