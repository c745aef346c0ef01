// Optimizer state in host memory and in files, and activations in host memory: the bits are the same as without
// offloading, no matter in which order the streams run, and less device memory is needed.
#include <doctest/doctest.h>

#include "device/copy.h"
#include "engine/rank_plans.h"
#include "optim/state_ring.h"
#include "run/run_plan.h"
#include "tests/gpt_of_size.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/same_tensors.h"
#include "tests/mirror/small_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Change = void (*)(TrainOptions&);

void offload_optimizer(TrainOptions& options) { options.parallel.optimizer_cpu_offload = true; }
/// In the folder of the run's checkpoints.
void offload_to_files(TrainOptions& options) {
  options.parallel.offload_optimizer = parent_folder(options.checkpoint.save);
}
void offload_layers(TrainOptions& options) {
  options.parallel.cpu_offloading = true;
  options.parallel.offloaded_layers = 2;
}
void offload_all(TrainOptions& options) {
  options.parallel.optimizer_cpu_offload = options.parallel.cpu_offloading = true;
}

TrainOptions options_of(Change change, const std::string& data, const std::string& save) {
  TrainOptions options = options_on(Device::cuda, data, save);
  options.architecture.num_layers = 5;
  options.parallel.bucket_elements = 1;  // one bucket per unit
  options.batch.train_iters = 4;
  change(options);
  return options;
}

/// Checks that both runs produce the same checkpoints and losses. The second run defers its commands. With seed 0, it
/// is also interrupted and resumed.
void check_same_run(Change plain, Change offloaded) {
  ScratchFolder scratch;
  write_data(scratch / "data");
  REQUIRE(run(options_of(plain, scratch / "data", scratch / "plain")) == Exit::ok);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const std::string save = scratch / cat("deferred", seed);
    TrainOptions options = options_of(plain, scratch / "data", save);
    offloaded(options);
    mirror::Deferral deferral(seed);
    if (seed == 0) {
      options.checkpoint.exit_interval = 3;
      CHECK(run(options) == Exit::ok);
      options.checkpoint.exit_interval.reset();
    }
    CHECK(run(options) == Exit::ok);
    check_same_tensors(scratch / "plain", save);
    CHECK(metrics_in(scratch / "plain.jsonl").size() >= 5);
    CHECK(metrics_in(save + ".jsonl") == metrics_in(scratch / "plain.jsonl"));
  }
}

/// Returns the memory plan for the small run's largest rank.
MemoryPlan plan_of(Change change) {
  TrainOptions options = options_of(change, "data", "save");
  options.architecture.max_position_embeddings = kLength;
  return largest_plan(
             plan_run(options,
                      gpt_of_size({.vocab = kVocab, .layers = 5, .hidden = 24, .heads = 3, .positions = kLength})))
      .plan;
}

}  // namespace

TEST_CASE("saves behind the steps copy what is on a late device, on the host or in files before steps change it") {
  for (const Change change : {Change([](TrainOptions&) {}), Change(offload_optimizer), Change(offload_to_files)}) {
    ScratchFolder scratch;
    write_data(scratch / "data");
    TrainOptions options = options_of(change, scratch / "data", scratch / "waiting");
    options.checkpoint.save_interval = 1;
    REQUIRE(run(options) == Exit::ok);
    options.checkpoint.save = scratch / "behind";
    options.checkpoint.async_save = true;
    const mirror::Deferral deferral(3);
    CHECK(run(options) == Exit::ok);
    for (int iteration = 1; iteration <= 4; ++iteration) {
      const std::string folder = cat("/iter_000000", iteration);
      check_same_tensors(scratch / "waiting" + folder, scratch / "behind" + folder);
    }
  }
}

TEST_CASE("optimizer state on the host changes no bit") {
  check_same_run([](TrainOptions&) {}, offload_optimizer);
  check_same_run([](TrainOptions& options) { options.precision.bf16 = true; }, offload_optimizer);
  check_same_run(
      [](TrainOptions& options) {
        options.precision.bf16 = options.precision.stochastic_rounding = true;
        options.precision.main_params = options.precision.exp_avg = "bf16";
      },
      offload_optimizer);
}

TEST_CASE("optimizer state in files changes no bit") {
  check_same_run([](TrainOptions& options) { options.precision.bf16 = true; },
                 [](TrainOptions& options) {
                   offload_to_files(options);
                   options.parallel.cpu_offloading = true;
                 });
}

TEST_CASE("the plan counts state in files, and rings in pinned and in device memory") {
  const MemoryPlan plain = plan_of([](TrainOptions&) {}), on_host = plan_of(offload_optimizer);
  const MemoryPlan in_files = plan_of(offload_to_files);
  CHECK(plain.total_bytes(Space::file) == 0);
  CHECK(in_files.total_bytes(Space::file) == plain.bytes(Category::optimizer, Space::device));
  CHECK(in_files.bytes(Category::optimizer, Space::device) == on_host.bytes(Category::optimizer, Space::device));
  CHECK(in_files.bytes(Category::optimizer, Space::host) == in_files.bytes(Category::optimizer, Space::device));
  CHECK(in_files.total_bytes(Space::device) < plain.total_bytes(Space::device));
}

TEST_CASE("the plan includes a host copy of the largest tensor on the device") {
  constexpr std::size_t kTable = 128 * 24, kFloat = 4;  // token embedding with a padded vocabulary
  CHECK(plan_of([](TrainOptions&) {}).bytes(Category::snapshot, Space::host) == kTable * kFloat);
  const auto in_bf16 = [](TrainOptions& options) {
    options.precision.bf16 = true;
    offload_optimizer(options);
  };
  CHECK(plan_of(in_bf16).bytes(Category::snapshot) == kTable * 2);  // main weights and moments are on the host
}

TEST_CASE("the plan counts offloaded optimizer state in host memory") {
  const MemoryPlan plain = plan_of([](TrainOptions&) {}), state = plan_of(offload_optimizer);
  CHECK(plain.bytes(Category::optimizer, Space::host) == 0);
  CHECK(state.bytes(Category::optimizer, Space::host) == plain.bytes(Category::optimizer, Space::device));
  CHECK(state.bytes(Category::optimizer, Space::device) > 0);  // the ring
  CHECK(state.total_bytes(Space::device) < plain.total_bytes(Space::device));
}

TEST_CASE("activations on the host change no bit") {
  check_same_run([](TrainOptions& options) { options.cuda_graphs = false; }, offload_layers);
  check_same_run([](TrainOptions&) {}, offload_all);
  check_same_run(
      [](TrainOptions& options) {
        make_llama(options);
        options.precision.bf16 = true;
        options.parallel.recompute_granularity = "selective";
      },
      offload_all);
}

TEST_CASE("the plan counts offloaded activations in host memory, and less on the device") {
  const MemoryPlan plain = plan_of([](TrainOptions&) {}), layers = plan_of(offload_layers), all = plan_of(offload_all);
  CHECK(plain.bytes(Category::offloaded) == 0);
  const std::size_t moved = layers.bytes(Category::offloaded, Space::host);
  CHECK(moved > 0);
  CHECK(layers.bytes(Category::slots, Space::device) + layers.bytes(Category::offload_ring, Space::device) + moved ==
        plain.bytes(Category::slots, Space::device));
  CHECK(all.bytes(Category::offloaded, Space::host) == moved / 2 * 3);  // 5 layers; 2 stay on the device
  CHECK(all.total_bytes(Space::device) < plain.total_bytes(Space::device));
}

namespace {

UpdateRange update_of(const Bucket& bucket) {
  return {.param = bucket.owned_main(),
          .grad = bucket.owned_grads(),
          .states = {bucket.states().begin(), bucket.states().end()}};
}

}  // namespace

TEST_CASE("states updated in pieces equal states updated at once") {
  const GptConfig config = gpt_of_size({.vocab = 40, .layers = 2, .hidden = 16, .heads = 2, .positions = 8});
  std::vector<std::vector<float>> values;
  ScratchFolder scratch;
  for (Space space : {Space::device, Space::host, Space::file}) {
    for (std::uint64_t seed = 0; seed < (space == Space::device ? 1u : 10u); ++seed) {
      mirror::Deferral deferral(seed);
      const ParamStorage storage{.optimizer_on_host = space == Space::host,
                                 .optimizer_folder = space == Space::file ? scratch.path() : ""};
      Chunk chunk({.config = config, .padded_vocab = 48}, {0, 2, true, true});
      ParamMemory store(
          Device::cuda, kPrecisionFp32, single_rule<AdamW>(), [&](const ParamVisitor& visit) { chunk.params(visit); },
          {}, storage);
      store.initialize(7);
      REQUIRE(store.buckets()[0].count > 256);  // more pieces than ring slots
      Stream stream(Device::cuda);
      StepMemory step(Device::cuda);
      const Bucket& bucket = store.buckets()[0];
      copy_on_device(stream, bucket.grads(), bucket.values());
      StateRing ring(store, {update_of(bucket)}, Device::cuda, 64);
      for (int i = 1; i <= 3; ++i) {
        step.send(stream, {.step = i, .lr = 0.1, .factors = {AdamW().factors({.step = i, .lr = 0.1})}});
        const UpdateRange range = update_of(bucket);
        const auto rule = [&](const UpdateRange& part) { AdamW().update(stream, part, step.on_device()); };
        if (space != Space::device) {
          ring.begin(stream);
          ring.update(stream, range, rule);
          ring.end(stream);
        } else {
          rule(range);
        }
      }
      values.push_back(host_copy<float>(stream, bucket.values()));
    }
  }
  REQUIRE(values.size() == 21);
  for (const std::vector<float>& weights : values) CHECK(weights == values[0]);
}
