// Batches on the emulated device: the feed copies them before they are needed, on its own stream, which runs late.
#include "train/data_feed.h"

#include <doctest/doctest.h>

#include "device/copy.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/small_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr int kSteps = 40;

/// Returns each step's tokens as an operator on the device reads them. The host waits only at the end. Step i has 1 + i
/// % 2 micro-batches.
std::vector<std::int32_t> tokens_seen(Device device, const std::string& data) {
  TrainingData files(options_on(device, data, ""), {kVocab});
  RunShape shape;
  shape.micro_batch = 2;
  shape.seq_length = kLength;
  shape.micro_batches = 2;
  shape.device = device;
  StepBatches memory = make_step_batches(shape);
  int step = 0;
  DataFeed feed(
      files.dataset(Split::train), {.total = files.dataset(Split::train)->size(), .micro_batch_size = 2}, shape,
      [&](std::int64_t) { return 1 + step++ % 2; }, memory);
  constexpr std::int64_t kTokens = 2 * kLength;
  Buffer buffer(device, 2 * kSteps * kTokens * sizeof(std::int32_t));
  const Tensor seen = buffer.tensor(DType::i32, {2 * kSteps * kTokens});
  Stream stream(device);
  for (int i = 0; i < kSteps; ++i) {
    const StepBatch& batch = feed.next(stream);
    CHECK(batch.micro_batches == 1 + i % 2);
    CHECK(std::ssize(batch.unmasked) == 2);
    for (int m = 0; m < batch.micro_batches; ++m)
      copy_on_device(stream, seen.flat((2 * i + m) * kTokens, kTokens),
                     batch.buffers->batch(m).tokens.flat(0, kTokens));
  }
  return host_copy<std::int32_t>(stream, seen);
}

}  // namespace

TEST_CASE("a feed's copies wait for operators that read the same memory, and those wait for the copies") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const std::vector<std::int32_t> expected = tokens_seen(Device::cpu, scratch / "data");
  REQUIRE(std::count(expected.begin(), expected.end(), 0) < std::ssize(expected) / 2);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    mirror::Deferral deferral(seed);
    CHECK(tokens_seen(Device::cuda, scratch / "data") == expected);
  }
}
