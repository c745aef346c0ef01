// Optimizer state in files: the same bits as in memory, at most three pieces in the page cache, and faults.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/fault_plan.h"
#include "base/files.h"
#include "ckpt/shard_writer.h"
#include "tests/cached_bytes.h"
#include "tests/comm/thread_group.h"
#include "tests/error_of.h"
#include "tests/optim/rank_params.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr Precision kMainWeights{.compute = DType::bf16, .residual = DType::bf16};
constexpr Precision kFp16{.compute = DType::f16, .residual = DType::f16};
constexpr Precision kStochastic{
    .compute = DType::bf16, .residual = DType::bf16, .main_params = DType::bf16, .stochastic_rounding = true};

/// The bytes of every tensor that a checkpoint stores, in order.
std::vector<std::byte> saved_bytes(const ParamMemory& store) {
  std::vector<std::byte> out;
  for (const TensorToSave& item : tensors_to_save(store, true)) {
    const auto bytes = item.bytes();
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

void write_gradients(RankParams& own) {
  own.chunk.params([&](Param& param, const ParamSpec&) {
    param.take_grad();
    const Tensor grad = own.store.grad(param.index);
    for (std::int64_t i = 0; i < grad.numel(); ++i) grad.data<float>()[i] = std::sin(float(i + 31 * param.index));
  });
}

/// Updates the weights three times on each rank, and returns all that the ranks save.
std::vector<std::vector<std::byte>> saved_after_updates(const Precision& precision, const Grid& grid,
                                                        const std::string& folder) {
  std::vector<std::vector<std::byte>> out(grid.tensor * grid.data);
  run_ranks(layout_of(grid, 0).grid, [&](int rank, const ProcessGroups& groups) {
    RankParams own(layout_of(grid, rank), tiny_gpt(), precision, {.bucket_elements = 600, .optimizer_folder = folder});
    Optimizer optimizer(own.store, {.clip_grad = 1, .overlap = {}, .seed = 5}, own.stream, groups);
    CHECK((optimizer.ring() == nullptr) == folder.empty());
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    StepState state;
    state.lr = 0.1f;
    for (state.step = 1; state.step <= 3; ++state.step) {
      optimizer.set_factors(state);
      optimizer.begin_step();
      write_gradients(own);
      optimizer.step(scratch, &state);
    }
    out[rank] = saved_bytes(own.store);
  });
  return out;
}

std::uint64_t cached_bytes(const ParamMemory& store) {
  std::uint64_t bytes = 0;
  for (std::size_t row = kFirstState; row < store.table().size(); ++row)
    bytes += test::cached_bytes(store.location_of(row).file->descriptor());
  return bytes;
}

/// Waits up to 20 seconds for `is_reached`, and returns whether it was.
bool reached(const std::function<bool()>& is_reached) {
  for (int i = 0; i < 20000; ++i) {
    if (is_reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

TEST_CASE("state in files: updates change the same bits as in memory") {
  ScratchFolder scratch;
  for (const Grid& grid : {Grid{}, Grid{.data = 2, .zero = 1}, Grid{.data = 2, .zero = 2}, Grid{.data = 2, .zero = 3},
                           Grid{.tensor = 2}, Grid{.tensor = 2, .data = 2, .zero = 1}}) {
    for (const Precision& precision : {kPrecisionFp32, kMainWeights, kFp16, kStochastic}) {
      const auto in_memory = saved_after_updates(precision, grid, "");
      CHECK(saved_after_updates(precision, grid, scratch.path()) == in_memory);
    }
  }
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("state in files: pieces take turns in the ring, and the page cache has at most three of them") {
  constexpr std::int64_t kPiece = 1 << 14;
  constexpr std::uint64_t kRows = 3, kPage = 4096;
  const std::uint64_t most = 3 * kRows * (kPiece * sizeof(float) + kPage);  // pieces begin within a page
  ScratchFolder scratch;
  if (is_in_memory(scratch.path())) {
    MESSAGE("not run: the folder for temporary files is in memory");
    return;
  }
  const GptConfig config = gpt_of_size({.vocab = 40, .layers = 4, .hidden = 128, .heads = 2, .positions = 8});
  std::vector<std::vector<std::byte>> saved;
  for (const std::string& folder : {std::string(), scratch.path()}) {
    RankParams own(layout_of({}, 0), config, kMainWeights, {.bucket_elements = 100'000, .optimizer_folder = folder});
    const bool in_files = !folder.empty();
    if (in_files) {
      REQUIRE(own.store.table().size() == kFirstState + kRows);
      CHECK(cached_bytes(own.store) == 0);  // after the initialization
      REQUIRE(own.store.bytes(kFirstState) > 20 * kPiece * sizeof(float));
    }
    write_gradients(own);
    std::vector<UpdateRange> ranges;
    for (const Bucket& bucket : own.store.buckets())
      ranges.push_back({.param = bucket.owned_main(),
                        .grad = bucket.owned_grads(),
                        .states = {bucket.states().begin(), bucket.states().end()},
                        .copy = bucket.owned_values()});
    StepState state;
    state.lr = 0.1f;
    state.step = 1;
    state.grad_factor = 1;
    state.factors[0] = AdamW().factors(state);
    const auto update = [&](const UpdateRange& part) {
      CHECK(part.param.numel() <= (in_files ? kPiece : part.param.numel()));
      AdamW().update(own.stream, part, &state);
    };
    if (!in_files) {
      for (int step = 0; step < 3; ++step)
        for (const UpdateRange& range : ranges) update(range);
    } else {
      StateRing ring(own.store, ranges, Device::cpu, kPiece);
      std::atomic<bool> ended = false;
      std::atomic<std::uint64_t> largest = 0;
      std::atomic<int> samples = 0;
      std::thread sampler([&] {
        for (; !ended; ++samples) largest = std::max(largest.load(), cached_bytes(own.store));
      });
      for (int step = 0; step < 3; ++step) {
        ring.begin(own.stream);
        for (const UpdateRange& range : ranges) ring.update(own.stream, range, update);
        ring.end(own.stream);
      }
      ended = true;
      sampler.join();
      CAPTURE(samples);
      CHECK(largest > 0);
      CHECK(largest <= most);
      CHECK(reached([&] { return cached_bytes(own.store) == 0; }));
    }
    saved.push_back(saved_bytes(own.store));
    if (in_files) CHECK(cached_bytes(own.store) == 0);  // after reading all of it, as saving does
  }
  CHECK(saved[0] == saved[1]);
}

TEST_CASE("state in files: a fault in any write is an error of the update or of the next save, never wrong state") {
  ScratchFolder scratch;
  run_ranks(RankGrid({}), [&](int, const ProcessGroups& groups) {
    const auto update = [&](const std::string& fault) {
      RankParams own(layout_of({}, 0), tiny_gpt(), kMainWeights,
                     {.bucket_elements = 2000, .optimizer_folder = scratch.path()});
      std::string message;
      std::vector<std::byte> saved;
      {
        Optimizer optimizer(own.store, {}, own.stream, groups);
        plan_faults(fault);
        Arena memory(Device::cpu, "scratch", 1 << 16);
        StepState state;
        state.lr = 0.1f;
        state.step = 1;
        optimizer.set_factors(state);
        optimizer.begin_step();
        write_gradients(own);
        message = error_of([&] { optimizer.step(memory, &state); }, Exit::io);
        CHECK(optimizer.update_begun());  // so that a run does not save this state
        const auto save = [&] { return error_of([&] { saved = saved_bytes(own.store); }, Exit::io); };
        if (message.empty()) {  // the last pieces may still be on their way to the disk
          CHECK(reached([&] { return cached_bytes(own.store) == 0 || !save().empty(); }));
          message = save();
        }
      }
      plan_faults("");
      return std::pair(message, saved);
    };
    const auto sound = update("").second;
    REQUIRE(!sound.empty());
    int failed = 0;
    for (const char* kind : {"eio", "enospc", "short", "eintr"}) {
      for (int n = 1; n <= 100; n += n < 6 ? 1 : 7) {
        CAPTURE(kind);
        CAPTURE(n);
        const auto [message, saved] = update(cat(kind, ":", n));
        if (message.empty()) {
          CHECK(saved == sound);
        } else {
          CHECK(contains(message, "--offload-optimizer " + scratch.path()));
          CHECK(std::string(kind).starts_with("e"));
          ++failed;
        }
      }
    }
    CHECK(failed > 10);
  });
  CHECK(fs::is_empty(scratch.path()));
}
