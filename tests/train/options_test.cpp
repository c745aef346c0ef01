// check_options(), check_division() and check_stages(): each contradiction is reported, at its flag, and only then.
#include "train/options.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "tests/gpt_of_size.h"
#include "train/stage_checks.h"

using namespace mtl;

namespace {

TrainOptions valid_options() {
  TrainOptions out;
  out.data.seq_length = 64;
  out.batch.train_iters = 4;
  out.optimizer.schedule.lr = 0.1;
  return out;
}

using Change = void (*)(TrainOptions&);

/// Returns the flags that are reported, joined, after a change of valid options for a model of 8 layers.
std::string refused(Change change) {
  TrainOptions options = valid_options();
  change(options);
  std::vector<std::string> flags;
  const ReportProblem report = [&](const std::string& flag, const std::string&) { flags.push_back(flag); };
  check_options(options, report);
  const GptConfig config = test::gpt_of_size({.vocab = 64, .layers = 8, .hidden = 32, .heads = 4, .positions = 64});
  if (flags.empty()) check_division(options, config, false, report);
  return join(flags, "; ");
}

/// Returns the flags that check_stages() reports without the number of layers.
std::string refused_stages(void (*change)(ParallelOptions&), std::optional<std::int64_t> layers = {}) {
  ParallelOptions options;
  options.pipeline = 2;
  change(options);
  std::vector<std::string> flags;
  check_stages(options, layers, false, [&](const std::string& flag, const std::string&) { flags.push_back(flag); });
  return join(flags, "; ");
}

}  // namespace

TEST_CASE("options: contradictions of batches, lengths and the data are reported") {
  using Options = TrainOptions;
  CHECK(refused([](Options&) {}) == "");
  const std::pair<Change, const char*> cases[] = {
      {[](Options& o) { o.data.seq_length = 0; }, "--seq-length"},
      {[](Options& o) { o.data.order = "feistel", o.data.dataloader_type = "cyclic"; }, "--dataloader-type cyclic"},
      {[](Options& o) { o.data.order = "feistel"; }, ""},
      {[](Options& o) { o.data.dataloader_type = "cyclic"; }, ""},
      {[](Options& o) { o.data.data_sharding = false; }, "--no-data-sharding"},
      {[](Options& o) { o.data.data_sharding = false, o.data.dataloader_type = "cyclic"; }, ""},
      {[](Options& o) { o.checkpoint.keep_last = 1; }, "--keep-last 1"},
      {[](Options& o) { o.checkpoint.keep_last = 2; }, ""},
      {[](Options& o) { o.batch.train_iters.reset(); }, "--train-iters"},
      {[](Options& o) { o.batch.train_iters.reset(), o.dry_run = true; }, ""},
      {[](Options& o) { o.batch.train_iters.reset(), o.optimizer.schedule.lr.reset(); }, "--train-iters; --lr"},
      {[](Options& o) { o.batch.train_iters.reset(), o.optimizer.schedule.lr.reset(), o.dry_run = true; }, ""},
      {[](Options& o) { o.batch.train_samples = 4; }, "--train-samples"},
      {[](Options& o) { o.batch.train_iters.reset(), o.batch.train_samples = 4; }, ""},
      {[](Options& o) { o.batch.train_iters.reset(), o.batch.train_samples = 7, o.batch.global_batch_size = 8; },
       "--train-samples 7"},
      {[](Options& o) { o.batch.train_iters.reset(), o.batch.train_samples = 8, o.batch.global_batch_size = 8; }, ""},
      {[](Options& o) { o.batch.micro_batch_size = 4, o.batch.global_batch_size = 6; }, "--global-batch-size 6"},
      {[](Options& o) {
         o.batch.micro_batch_size = 4, o.batch.global_batch_size = 6;
         o.batch.decrease_if_needed = true;
       },
       ""},
      {[](Options& o) { o.batch.global_batch_size = 1 << 20; }, ""},
      {[](Options& o) { o.batch.global_batch_size = (1 << 20) + 1; }, "--global-batch-size 1048577"},
      {[](Options& o) {
         o.batch.rampup = {"1", "1", "8"}, o.batch.global_batch_size = 4;
       },
       "--rampup-batch-size"},
      {[](Options& o) { o.batch.schedule = "0:1 512:2", o.batch.global_batch_size = 2; }, "--step-batch-size-schedule"},
      {[](Options& o) {
         o.batch.rampup = {"1", "x", "8"};
       },
       "--rampup-batch-size 1 x 8"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64;
         o.batch.schedule = "0:1 512:2", o.batch.global_batch_size = 4;
       },
       "--global-batch-size 4"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64;
         o.batch.schedule = "0:1 512:2", o.batch.global_batch_size = 2;
       },
       ""},
      {[](Options& o) { o.batch.train_iters = INT64_MAX / 2 + 1, o.batch.global_batch_size = 2; },
       "--train-iters 4611686018427387904"},
      {[](Options& o) { o.batch.train_iters = INT64_MAX, o.batch.eval_iters = 0; }, ""},
      {[](Options& o) { o.profile.step_end = 10; }, ""},  // without --profile
      {[](Options& o) { o.profile.enabled = true, o.profile.step_end = 10; }, "--profile-step-end 10"},
      {[](Options& o) { o.profile.enabled = true, o.profile.step_end = 11; }, ""},
      {[](Options& o) { o.profile.enabled = true, o.profile.ranks = {"1"}; }, "--profile-ranks 1"},
      {[](Options& o) {
         o.profile.enabled = true, o.profile.ranks = {"0", "-1", "x"};
       },
       "--profile-ranks -1; --profile-ranks x"},
  };
  for (const auto& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    CHECK(refused(each.first) == std::string(each.second));
  }
}

TEST_CASE("options: layouts that the ranks, the model or a step cannot fill are reported") {
  using Options = TrainOptions;
  const std::pair<Change, const char*> cases[] = {
      {[](Options& o) { o.parallel.expert = 2; }, "--expert-model-parallel-size 2"},
      {[](Options& o) { o.parallel.world = 3, o.parallel.tensor = 2; },
       "--tensor-model-parallel-size 2 x --pipeline-model-parallel-size 1"},
      {[](Options& o) { o.parallel.world = 3, o.parallel.context = 2; },
       "--tensor-model-parallel-size 1 x --pipeline-model-parallel-size 1 x --context-parallel-size 2"},
      {[](Options& o) { o.parallel.world = o.parallel.context = 3; }, "--context-parallel-size 3"},
      {[](Options& o) { o.parallel.world = o.parallel.context = 32; }, ""},
      {[](Options& o) { o.parallel.world = o.parallel.context = 64; }, "--context-parallel-size 64"},
      {[](Options& o) {
         o.data.seq_length = 66, o.parallel.world = o.parallel.tensor = 4;
         o.parallel.layout.sequence_parallel = true;
       },
       "--sequence-parallel"},
      {[](Options& o) { o.data.seq_length = 66, o.parallel.world = o.parallel.tensor = 4; }, ""},
      {[](Options& o) { o.parallel.world = o.parallel.tensor = 8; }, "--num-attention-heads 4"},
      {[](Options& o) { o.parallel.world = o.parallel.tensor = 3; }, "--num-attention-heads 4; --ffn-hidden-size 128"},
      {[](Options& o) { o.parallel.world = o.parallel.pipeline = 4, o.parallel.schedule = "interleaved"; },
       "--pipeline-schedule interleaved"},
      {[](Options& o) { o.parallel.world = o.parallel.pipeline = 4, o.parallel.virtual_stages = 2; },
       "--global-batch-size 1"},
      {[](Options& o) {
         o.parallel.world = o.parallel.pipeline = 4, o.parallel.virtual_stages = 2;
         o.batch.global_batch_size = 4;
       },
       ""},
      {[](Options& o) {
         o.parallel.world = o.parallel.pipeline = 4, o.parallel.virtual_stages = 2, o.parallel.group = 5;
         o.batch.global_batch_size = 8;
       },
       "--microbatch-group-size-per-virtual-pipeline-stage 5"},
      {[](Options& o) {
         o.parallel.world = o.parallel.pipeline = 4, o.parallel.virtual_stages = 2;
         o.parallel.schedule = "gpipe";
       },
       "--pipeline-schedule gpipe"},
      {[](Options& o) {
         o.parallel.world = 4, o.parallel.pipeline = 2, o.parallel.zero_stage = 2;
         o.parallel.schedule = "zb-h1";
       },
       "--zero-stage 2"},
      {[](Options& o) {
         o.parallel.world = 4, o.parallel.pipeline = 2, o.parallel.zero_stage = 1;
         o.parallel.schedule = "zb-h1";
       },
       ""},
      {[](Options& o) { o.device = Device::cuda, o.parallel.cpu_offloading = true, o.parallel.offloaded_layers = 6; },
       ""},
      {[](Options& o) { o.device = Device::cuda, o.parallel.cpu_offloading = true, o.parallel.offloaded_layers = 7; },
       "--cpu-offloading-num-layers 7"},
      {[](Options& o) { o.parallel.cpu_offloading = true, o.parallel.offloaded_layers = 8; }, ""},
      {[](Options& o) {
         o.device = Device::cuda, o.parallel.cpu_offloading = true;
         o.parallel.world = o.parallel.pipeline = 4;
       },
       "--cpu-offloading"},
      {[](Options& o) {
         o.device = Device::cuda, o.parallel.cpu_offloading = true;
         o.parallel.world = o.parallel.pipeline = 2;
       },
       ""},
      {[](Options& o) {
         o.device = Device::cuda, o.parallel.cpu_offloading = true;
         o.parallel.world = o.parallel.pipeline = 2, o.parallel.schedule = "zb-h1";
       },
       "--pipeline-schedule zb-h1"},
  };
  for (const auto& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    CHECK(refused(each.first) == std::string(each.second));
  }
}

TEST_CASE("options: flags that divide stages exclude each other, and most need the number of layers") {
  using Options = ParallelOptions;
  constexpr const char* kNeeding =
      "--num-layers-per-virtual-pipeline-stage; --num-layers-in-first-pipeline-stage; "
      "--num-layers-in-last-pipeline-stage; --account-for-embedding-in-pipeline-split; "
      "--account-for-loss-in-pipeline-split";
  const auto all = [](Options& o) {
    o.layers_per_virtual_stage = 2;
    o.layout.first_stage_layers = o.layout.last_stage_layers = 2;
    o.layout.account_for_embedding = o.layout.account_for_loss = true;
  };
  CHECK(refused_stages(all) == kNeeding);
  CHECK(refused_stages([](Options& o) { o.layout.layer_counts = {2, 2}; }) == "--pipeline-model-parallel-layout");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = o.virtual_stages = 2; }) ==
        "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank");
  CHECK(refused_stages([](Options& o) {
          o.layout.layer_counts = {2, 2}, o.virtual_stages = 2;
        }) == "--num-virtual-stages-per-pipeline-rank");
  CHECK(refused_stages([](Options& o) {
          o.layout.layer_counts = {2, 2}, o.layers_per_virtual_stage = 2;
        }) == "--num-layers-per-virtual-pipeline-stage");
  std::string balanced = "--pipeline-split balanced, " + std::string(kNeeding);
  for (std::size_t at = 0; (at = balanced.find("; --", at)) != std::string::npos; at += 4)
    balanced.replace(at, 4, "; --pipeline-split balanced, --");
  CHECK(refused_stages([](Options& o) {
          o.pipeline_split = "balanced";
          o.layers_per_virtual_stage = 2;
          o.layout.first_stage_layers = o.layout.last_stage_layers = 2;
          o.layout.account_for_embedding = o.layout.account_for_loss = true;
        }) == balanced);
  CHECK(refused_stages([](Options& o) {
          o.pipeline_split = "balanced", o.layout.layer_counts = {2, 2};
        }) == "--pipeline-split balanced, --pipeline-model-parallel-layout");
  CHECK(refused_stages([](Options& o) { o.virtual_stages = 2; }) == "");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = 3; }, 8) == "--num-layers 8");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = 2; }, 8) == "");
  for (const bool embedding : {false, true}) {
    CAPTURE(embedding);
    const auto with_account = [](Options& o) { o.layout.account_for_loss = true, o.layers_per_virtual_stage = 2; };
    const auto with_embedding = [](Options& o) {
      o.layout.account_for_embedding = true, o.layers_per_virtual_stage = 2;
    };
    CHECK(refused_stages(embedding ? +with_embedding : +with_account, 8) ==
          "--num-layers-per-virtual-pipeline-stage 2");
  }
}

TEST_CASE("options: sizes whose products need more than 64 bits are reported") {
  const auto refused_model = [](std::int64_t layers, std::int64_t hidden, std::int64_t positions, Change change) {
    TrainOptions options = valid_options();
    change(options);
    options.architecture.num_layers = layers;
    options.architecture.hidden_size = hidden;
    options.architecture.num_attention_heads = 1;
    options.architecture.max_position_embeddings = positions;
    std::vector<std::string> flags;
    resolve_config(options, {}, 100, [&](const std::string& flag, const std::string&) { flags.push_back(flag); });
    return join(flags, "; ");
  };
  const auto keep = [](TrainOptions&) {};
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  CHECK(refused_model(1, 64, 64, keep) == "");
  CHECK(refused_model(std::int64_t{1} << 44, 64, 64, keep) ==
        "--num-layers, --hidden-size, --ffn-hidden-size; --micro-batch-size, --seq-length, --num-layers");
  CHECK(refused_model(1, 1 << 20, kLarge, keep) == "--max-position-embeddings, --hidden-size");
  CHECK(refused_model(1, 1 << 20, 64, [](TrainOptions& o) {
          o.architecture.make_vocab_size_divisible_by = std::int64_t{1} << 40;
        }) == "--make-vocab-size-divisible-by, --hidden-size");
  CHECK(refused_model(1, 1, 1 << 30, [](TrainOptions& o) { o.data.seq_length = 1 << 29; }) ==
        "--micro-batch-size, --seq-length, --num-attention-heads");
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) { o.batch.train_iters = std::int64_t{1} << 60; }) ==
        "--train-iters, --global-batch-size, --seq-length");
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) { o.batch.train_samples = std::int64_t{1} << 60; }) ==
        "--train-samples, --seq-length");
}
