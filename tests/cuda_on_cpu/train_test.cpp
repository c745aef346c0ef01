// A complete run with the CUDA kernels on fibers: embedding, layers, losses, gradients, optimizer and validation
// produce the same losses as the cpu's operators. Dropout draws the same bits.
#include <doctest/doctest.h>

#include "tests/mirror/queue.h"
#include "tests/mirror/small_run.h"
#include "tests/relative_error.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns each step's loss and gradient norm, and each validation's losses.
std::vector<double> numbers_of(const std::string& log) {
  std::vector<double> out;
  for (const std::string& line : split(read_file(log), '\n')) {
    if (line.empty()) continue;
    const Json record = Json::parse(line);
    for (const char* name : {"lm_loss", "loss", "grad_norm"}) {
      if (const Json* value = record.find(name)) out.push_back(value->as_number());
    }
  }
  return out;
}

/// Returns the relative rms difference between the metrics of a cuda run and a cpu run.
double distance(void (*make)(TrainOptions&)) {
  ScratchFolder scratch;
  write_data(scratch / "data");
  for (Device device : {Device::cpu, Device::cuda}) {
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    make(options);
    CHECK(run(options) == Exit::ok);
  }
  const std::vector<double> expected = numbers_of(scratch / "cpu.jsonl"), actual = numbers_of(scratch / "cuda.jsonl");
  REQUIRE(expected.size() >= 14);  // six losses and norms, plus validations
  REQUIRE(actual.size() == expected.size());
  return rms_relative(actual.data(), expected);
}

/// Heads with 64 elements, which use tensor cores in 16 bits, and rows that are multiples of a pack.
void make_wide(TrainOptions& options) {
  options.architecture.hidden_size = 128;
  options.architecture.num_attention_heads = 2;
  options.optimizer.schedule.lr = 0.001;
}
void make_bf16(TrainOptions& options) {
  make_wide(options);
  options.precision.bf16 = true;
}
void make_fp16(TrainOptions& options) {
  make_wide(options);
  options.precision.fp16 = true;
  options.precision.initial_loss_scale = 1024;
}

}  // namespace

TEST_CASE("a run on CUDA's kernels equals the cpu's losses") {
  CHECK(distance([](TrainOptions&) {}) < 1e-5);
  CHECK(distance(make_wide) < 1e-5);
  CHECK(distance(make_llama) < 1e-5);
  CHECK(distance(make_neox) < 1e-5);
}

TEST_CASE("a run whose commands wait for the host produces the same bits") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  auto run_as = [&](const std::string& name) {
    CHECK(run(options_on(Device::cuda, scratch / "data", scratch / name)) == Exit::ok);
    return metrics_in(scratch / (name + ".jsonl"));
  };
  const std::vector<std::string> at_once = run_as("at_once");
  REQUIRE(!at_once.empty());
  for (std::uint64_t seed : {1, 2}) {
    mirror::Deferral deferral(seed);
    CHECK(run_as(cat("deferred", seed)) == at_once);
  }
}

TEST_CASE("a 16-bit run on CUDA's kernels equals the cpu's losses within rounding") {
  CHECK(distance(make_bf16) < 5e-3);
  CHECK(distance(make_fp16) < 1e-3);
}
