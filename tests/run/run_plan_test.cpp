// What a run's options mean for the engine.
#include "run/run_plan.h"

#include <doctest/doctest.h>

#include "optim/precision_presets.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

GptConfig four_layers() {
  return test::gpt_of_size({.vocab = 100, .layers = 4, .hidden = 32, .heads = 4, .positions = 64});
}

TrainOptions options_on(std::int64_t world) {
  TrainOptions out;
  out.parallel.world = world;
  out.data.seq_length = 64;
  out.batch.micro_batch_size = 2;
  out.batch.global_batch_size = 16;
  out.threads = 3;
  return out;
}

}  // namespace

TEST_CASE("run plan: the shape of a run has its sizes, and on the CPU nothing is on a host beside it") {
  TrainOptions options = options_on(2);
  options.data.reset_attention_mask = true;
  options.precision.bf16 = true;
  options.parallel.optimizer_cpu_offload = options.parallel.cpu_offloading = true;
  options.hidden_dropout = 0.25;
  options.attention_dropout = 0.5;
  options.seed = 7;
  RunShape shape = run_shape(options, four_layers(), 1);
  CHECK(shape.micro_batch == 2);
  CHECK(shape.seq_length == 64);
  CHECK(shape.micro_batches == 4);
  CHECK(shape.padded_vocab == 128);
  CHECK(shape.documents);
  CHECK_FALSE(shape.resets_positions);
  CHECK(shape.threads == 3);
  CHECK(shape.batch_sets == 4);
  CHECK(shape.precision == find_precision("bf16"));
  CHECK(shape.layout.rank == 1);
  CHECK_FALSE(shape.storage.optimizer_on_host);
  CHECK(shape.offloaded_layers == 0);
  CHECK_FALSE(shape.graphs);
  const DropoutOptions dropout = run_dropout(options);
  CHECK(dropout.hidden == 0.25F);
  CHECK(dropout.attention == 0.5F);
  CHECK(dropout.seed == 7);
  options.device = Device::cuda;
  options.data.reset_attention_mask = false;
  options.data.reset_position_ids = true;
  options.batch.eval_iters = 0;
  shape = run_shape(options, four_layers(), 0);
  CHECK_FALSE(shape.documents);
  CHECK(shape.resets_positions);
  CHECK(shape.batch_sets == 2);
  CHECK(shape.storage.optimizer_on_host);
  CHECK(shape.offloaded_layers == kAllLayers);
  options.batch.eval_iters = 1;
  CHECK(run_shape(options, four_layers(), 0).batch_sets == 4);
}

TEST_CASE("run plan: a run stores its parameters, and recomputes and offloads activations, as its options say") {
  TrainOptions options = options_on(2);
  ParallelOptions& parallel = options.parallel;
  const auto bucket = [&] { return run_shape(options, four_layers(), 0).storage.bucket_elements; };
  CHECK(bucket() == 40'000'000);
  parallel.zero_stage = 2;
  CHECK(bucket() == 1);
  parallel.zero_stage = 1;
  CHECK(bucket() == 40'000'000);
  parallel.world = 100;
  options.batch.global_batch_size = 200;
  CHECK(bucket() == 100'000'000);
  parallel.bucket_elements = 500;
  CHECK(bucket() == 500);
  options.device = Device::cuda;
  parallel.recompute_activations = parallel.cpu_offloading = true;
  parallel.offloaded_layers = 1;
  parallel.offload_optimizer = "states";
  const RunShape shape = run_shape(options, four_layers(), 0);
  CHECK(shape.recompute.recomputes_attention());
  CHECK(shape.offloaded_layers == 1);
  CHECK_FALSE(shape.storage.optimizer_on_host);
  CHECK(shape.storage.optimizer_folder == "states");
}

TEST_CASE("run plan: steps run as graphs on GPUs, unless a flag or what the run waits for speaks against it") {
  using Options = TrainOptions;
  const std::pair<void (*)(Options&), bool> cases[] = {
      {[](Options&) {}, true},
      {[](Options& o) { o.device = Device::cpu; }, false},
      {[](Options& o) { o.cuda_graphs = false; }, false},
      {[](Options& o) { o.parallel.zero_stage = 1; }, true},
      {[](Options& o) { o.parallel.zero_stage = 2; }, true},
      {[](Options& o) { o.parallel.zero_stage = 3, o.parallel.overlap_grad_reduce = true; }, true},
      {[](Options& o) { o.parallel.zero_stage = 2, o.parallel.world = 4, o.parallel.pipeline = 2; }, true},
      {[](Options& o) {
         o.parallel.zero_stage = 2, o.parallel.world = 4, o.parallel.pipeline = 2;
         o.parallel.overlap_grad_reduce = true;
       },
       false},
      {[](Options& o) { o.parallel.offload_optimizer = "DIR"; }, false},
      {[](Options& o) { o.parallel.context = 2, o.parallel.cp_comm_type = "all_gather"; }, true},
      {[](Options& o) { o.parallel.context = 2, o.parallel.cp_comm_type = "p2p"; }, false},
  };
  for (const auto& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    TrainOptions options = options_on(2);
    options.device = Device::cuda;
    each.first(options);
    CHECK(run_shape(options, four_layers(), 0).graphs == each.second);
  }
}

TEST_CASE(
    "run plan: balanced stages have their layers, and a schedule that defers weights knows how long places take") {
  TrainOptions options = options_on(2);
  options.parallel.pipeline = 2;
  RunShape shape = run_shape(options, four_layers(), 0);
  CHECK(shape.layout.split.layer_counts.empty());
  CHECK(shape.layout.durations.empty());
  options.parallel.pipeline_split = "balanced";
  options.parallel.schedule = "zb-h1";
  shape = run_shape(options, four_layers(), 0);
  CHECK(shape.layout.split.layer_counts.size() == 2);
  CHECK(shape.layout.durations.size() == 2);
}
