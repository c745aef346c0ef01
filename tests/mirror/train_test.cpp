// A whole run on a device whose memory the host cannot reach: training, validation, checkpoints, a resume, and what is
// computed with the model afterwards. Every bit is the same as on the cpu, or an operand went another way.
#include <doctest/doctest.h>

#include "eval/decoder.h"
#include "eval/scorer.h"
#include "tests/mirror/small_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

ModelSource open(const std::string& folder) {
  Console console = quiet_console();
  return ModelSource::open(folder, console);
}

void check_same_tensors(const std::string& a, const std::string& b) {
  const ModelSource left = open(a), right = open(b);
  REQUIRE(!left.tensors().empty());
  REQUIRE(left.tensors().size() == right.tensors().size());
  for (const SavedTensor& tensor : left.tensors()) {
    CAPTURE(tensor.name);
    const Slice all = whole_slice(tensor.shape);
    std::vector<std::byte> of_a(static_cast<std::size_t>(all.count()) * sizeof(float)), of_b(of_a.size());
    left.read(tensor.name, all, of_a);
    right.read(tensor.name, all, of_b);
    CHECK(of_a == of_b);
  }
}

/// The run, interrupted and resumed, has the tensors and figures of the one that saved into `whole`.
void check_resumed_run(TrainOptions options, const std::string& whole) {
  options.checkpoint.exit_interval = 3;
  CHECK(run(options) == Exit::ok);
  options.checkpoint.exit_interval.reset();
  CHECK(run(options) == Exit::ok);
  check_same_tensors(whole, options.checkpoint.save);
  const std::vector<std::string> expected = figures(whole + ".jsonl");
  CHECK(expected.size() >= 8);  // six steps, validations, the test
  CHECK(figures(options.checkpoint.save + ".jsonl") == expected);
}

}  // namespace

TEST_CASE("a run with validation, checkpoints and a resume has the bits of the cpu's") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  check_resumed_run(options_on(Device::cuda, scratch / "data", scratch / "cuda"), scratch / "cpu");
}

TEST_CASE("runs of other architectures, recomputed and resumed, have the bits of the cpu's") {
  for (void (*make)(TrainOptions&) : {make_llama, make_neox}) {
    ScratchFolder scratch;
    write_data(scratch / "data");
    TrainOptions options = options_on(Device::cpu, scratch / "data", scratch / "cpu");
    make(options);
    CHECK(run(options) == Exit::ok);
    options = options_on(Device::cuda, scratch / "data", scratch / "cuda");
    make(options);
    check_resumed_run(options, scratch / "cpu");
  }
}

TEST_CASE("gradients that are not finite are found, and change nothing") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  for (Device device : {Device::cpu, Device::cuda}) {
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    options.optimizer.schedule.lr = 1e30;  // the first update spoils the model
    options.batch.eval_iters = 0;
    CHECK(run(options) == Exit::ok);
  }
  check_same_tensors(scratch / "cpu", scratch / "cuda");
  CHECK(open(scratch / "cuda").state()->skipped_iterations == 5);
}

TEST_CASE("logits, losses and generation have the bits of the cpu's") {
  Console console = quiet_console();
  const ModelSource source = ModelSource::open("golden/gpt2_model/a", console);
  Model on_cpu(source, 2), on_cuda(source, 2, DType::f32, Device::cuda);
  const std::vector<std::int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
  CHECK(on_cpu.logits(ids) == on_cuda.logits(ids));

  Scorer of_cpu(on_cpu, 2, 3), of_cuda(on_cuda, 2, 3);
  for (Scorer* scorer : {&of_cpu, &of_cuda}) {
    scorer->push(ids);
    scorer->finish();
  }
  CHECK(of_cpu.score().tokens == 7);
  CHECK(of_cpu.score().loss_sum == of_cuda.score().loss_sum);

  Decoder by_cpu(on_cpu, 2, 10), by_cuda(on_cuda, 2, 10);
  const auto same = [](std::span<const float> a, std::span<const float> b) {
    return !a.empty() && std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  CHECK(same(by_cpu.append(1, ids), by_cuda.append(1, ids)));
  CHECK(same(by_cpu.append(0, {ids.data(), 2}), by_cuda.append(0, {ids.data(), 2})));
  const std::vector<std::int32_t> next = {7, 8};
  CHECK(same(by_cpu.step(next), by_cuda.step(next)));
  CHECK(by_cuda.held(0) == 3);
}
