// check_options(), check_division() and check_stages(): each contradiction is reported, at its flag, and only then.
#include "run/options.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "run/stage_checks.h"
#include "tests/gpt_of_size.h"

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

/// Returns the problems that are reported after a change of valid options for a model of 8 layers.
std::vector<Problem> problems_of(Change change) {
  TrainOptions options = valid_options();
  change(options);
  std::vector<Problem> out;
  const ReportProblem report = [&](const std::string& flag, const std::string& what) { out.push_back({flag, what}); };
  check_options(options, report);
  const GptConfig config = test::gpt_of_size({.vocab = 64, .layers = 8, .hidden = 32, .heads = 4, .positions = 64});
  if (out.empty()) check_division(options, config, false, report);
  return out;
}

/// Returns the flags of these problems, joined.
std::string refused(Change change) {
  std::vector<std::string> flags;
  for (const Problem& problem : problems_of(change)) flags.push_back(problem.where);
  return join(flags, "; ");
}

/// Returns the flags that check_stages() reports without the number of layers.
std::string refused_stages(void (*change)(ParallelOptions&), std::optional<std::int64_t> layers = {}) {
  ParallelOptions options;
  options.pipeline = 2;
  change(options);
  std::vector<std::string> flags;
  const bool is_valid =
      check_stages(options, layers, false, [&](const std::string& flag, const std::string&) { flags.push_back(flag); });
  CHECK(is_valid == flags.empty());
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
      {[](Options& o) { o.checkpoint.save_interval = 4, o.checkpoint.retain_interval = 10; },
       "--save-retain-interval 10"},
      {[](Options& o) { o.checkpoint.save_interval = 5, o.checkpoint.retain_interval = 10; }, ""},
      {[](Options& o) { o.batch.train_iters.reset(); }, "--train-iters"},
      {[](Options& o) { o.batch.train_iters.reset(), o.dry_run = true; }, ""},
      {[](Options& o) { o.batch.train_iters.reset(), o.optimizer.schedule.lr.reset(); }, "--train-iters; --lr"},
      {[](Options& o) { o.batch.train_iters.reset(), o.optimizer.schedule.lr.reset(), o.dry_run = true; }, ""},
      {[](Options& o) { o.optimizer.schedule.lr.reset(); }, "--lr"},
      {[](Options& o) { o.batch.train_iters.reset(), o.batch.train_samples = 4, o.optimizer.schedule.lr.reset(); },
       "--lr"},
      {[](Options& o) { o.optimizer.schedule.lr.reset(), o.dry_run = true; }, ""},
      {[](Options& o) { o.optimizer.schedule.min_lr = 1, o.dry_run = true; }, "--min-lr 1"},
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
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 4;
         o.batch.micro_batch_size = 4, o.batch.global_batch_size = 6;
       },
       "--global-batch-size 6"},
      {[](Options& o) { o.batch.train_iters = INT64_MAX, o.batch.micro_batch_size = 4, o.batch.global_batch_size = 6; },
       "--global-batch-size 6"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 4, o.batch.global_batch_size = (1 << 20) + 1;
       },
       "--global-batch-size 1048577"},
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
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64, o.batch.decrease_if_needed = true;
         o.batch.schedule = "0:1 512:2", o.batch.global_batch_size = 4;
       },
       ""},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 1;
         o.batch.schedule = "0:2 512:4", o.batch.global_batch_size = 8;
       },
       "--global-batch-size 8"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64, o.batch.micro_batch_size = 4;
         o.batch.rampup = {"2", "2", "8"}, o.batch.global_batch_size = 8;
       },
       "--rampup-batch-size 2 2 8"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64, o.parallel.world = 4;
         o.batch.rampup = {"2", "2", "8"}, o.batch.global_batch_size = 8;
       },
       "--rampup-batch-size 2 2 8"},
      {[](Options& o) {
         o.batch.train_iters.reset(), o.batch.train_samples = 64, o.batch.micro_batch_size = 4;
         o.batch.rampup = {"4", "4", "64"}, o.batch.global_batch_size = 6;
       },
       "--rampup-batch-size 4 4 64"},
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
         o.parallel.sequence_parallel = true;
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
      {[](Options& o) { o.parallel.world = o.parallel.pipeline = 16; }, "--num-layers 8"},
      {[](Options& o) {
         o.parallel.world = o.parallel.pipeline = 4, o.parallel.virtual_stages = 2;
         o.batch.train_iters.reset(), o.batch.train_samples = 64;
         o.batch.rampup = {"1", "1", "4"}, o.batch.global_batch_size = 4;
       },
       "--rampup-batch-size 1 1 4"},
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
      {[](Options& o) {
         o.parallel.world = 4, o.parallel.pipeline = 2, o.parallel.zero_stage = 3;
         o.parallel.schedule = "zb-h1";
       },
       ""},  // --zero-stage reports it
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

TEST_CASE("options: problems say the nearest values, the ranks, and what to change") {
  using Options = TrainOptions;
  const std::pair<Change, const char*> cases[] = {
      {[](Options& o) { o.batch.micro_batch_size = 4, o.batch.global_batch_size = 6; },
       "is not a multiple of --micro-batch-size 4 x data-parallel size 1; use 4 or 8"},
      {[](Options& o) { o.batch.micro_batch_size = 8, o.batch.global_batch_size = 6; },
       "is not a multiple of --micro-batch-size 8 x data-parallel size 1; use 8"},
      {[](Options& o) { o.parallel.world = 4, o.batch.global_batch_size = 6; },
       "is not a multiple of --micro-batch-size 1 x data-parallel size 4 (4 ranks / --tensor-model-parallel-size 1 / "
       "--pipeline-model-parallel-size 1); use 4 or 8"},
      {[](Options& o) { o.parallel.world = 8, o.parallel.context = 2, o.batch.global_batch_size = 6; },
       "is not a multiple of --micro-batch-size 1 x data-parallel size 4 (8 ranks / --tensor-model-parallel-size 1 / "
       "--pipeline-model-parallel-size 1 / --context-parallel-size 2); use 4 or 8"},
      {[](Options& o) { o.parallel.world = 3, o.parallel.tensor = 2; },
       "need a multiple of 2 ranks, but there are 3; start the run with mpirun -n 4"},
      {[](Options& o) { o.parallel.world = 3, o.parallel.tensor = 2, o.dry_run = true; },
       "need a multiple of 2 ranks, but there are 3; start the run with mpirun -n 4"},
      {[](Options& o) {
         o.parallel.world = 3, o.parallel.tensor = 2, o.dry_run = true;
         o.parallel.plan_world = 3;
       },
       "need a multiple of 2 ranks, but there are 3; use --world-size 4"},
      {[](Options& o) { o.profile.enabled = true, o.profile.ranks = {"1"}; },
       "is not a rank of this run, whose only rank is 0"},
      {[](Options& o) { o.parallel.world = 2, o.profile.enabled = true, o.profile.ranks = {"2"}; },
       "is not a rank of this run, whose ranks are 0 to 1"},
      {[](Options& o) { o.device = Device::cuda, o.parallel.cpu_offloading = true, o.parallel.offloaded_layers = 7; },
       "needs at least 9 layers in each stage, because the activations of 2 layers stay on the GPU, but one stage has "
       "8; offload fewer layers, or use fewer stages"},
      {[](Options& o) {
         o.device = Device::cuda, o.parallel.cpu_offloading = true;
         o.parallel.world = o.parallel.pipeline = 4;
       },
       "needs at least 3 layers in each stage, because the activations of 2 layers stay on the GPU, but one stage has "
       "2; use fewer stages"},
      {[](Options& o) {
         o.parallel.world = 4, o.parallel.pipeline = 2, o.parallel.zero_stage = 2;
         o.parallel.schedule = "zb-h1";
       },
       "cannot be combined with --pipeline-schedule zb-h1, which leaves weight gradients for later; use --zero-stage "
       "1, or --pipeline-schedule 1f1b"},
      {[](Options& o) {
         o.parallel.world = 4, o.parallel.pipeline = 2, o.parallel.zero_stage = 2;
         o.parallel.schedule = "zb-v";
       },
       "cannot be combined with --pipeline-schedule zb-v, which leaves weight gradients for later; use --zero-stage "
       "1, or --pipeline-schedule interleaved"},
      {[](Options& o) { o.parallel.world = o.parallel.tensor = 8; },
       "is not a multiple of --tensor-model-parallel-size 8; change one of them"},
  };
  for (const auto& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    const std::vector<Problem> problems = problems_of(each.first);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].what == std::string(each.second));
  }
  TrainOptions options = valid_options();
  options.parallel.world = options.parallel.tensor = 4;
  GptConfig grouped = test::gpt_of_size({.vocab = 64, .layers = 8, .hidden = 32, .heads = 4, .positions = 64});
  grouped.num_query_groups = 2;
  std::string problem;
  check_division(options, grouped, true,
                 [&](const std::string& flag, const std::string& what) { problem += cat(flag, " ", what, "\n"); });
  CHECK(problem ==
        "--num-query-groups 2 is not a multiple of --tensor-model-parallel-size 4; choose a size that divides it\n");
}

TEST_CASE("options: the length of a run has all that decides how many samples it needs") {
  const BatchOptions batch = [] {
    BatchOptions out;
    out.micro_batch_size = 2;
    out.eval_interval = 7;
    out.eval_iters = 5;
    out.train_samples = 99;
    return out;
  }();
  const RunLength length = batch.run_length(3, 4);
  CHECK(length.train_iters == 3);
  CHECK(length.global_batch_size == 8);
  CHECK(length.eval_interval == 7);
  CHECK(length.eval_iters == 5);
  CHECK(length.train_samples == 99);
}

TEST_CASE("options: flags that divide stages exclude each other, and most need the number of layers") {
  using Options = ParallelOptions;
  constexpr const char* kNeeding =
      "--num-layers-per-virtual-pipeline-stage; --num-layers-in-first-pipeline-stage; "
      "--num-layers-in-last-pipeline-stage; --account-for-embedding-in-pipeline-split; "
      "--account-for-loss-in-pipeline-split";
  const auto all = [](Options& o) {
    o.layers_per_virtual_stage = 2;
    o.split.first_stage_layers = o.split.last_stage_layers = 2;
    o.split.account_for_embedding = o.split.account_for_loss = true;
  };
  CHECK(refused_stages(all) == kNeeding);
  CHECK(refused_stages([](Options& o) { o.split.layer_counts = {2, 2}; }) == "--pipeline-model-parallel-layout");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = o.virtual_stages = 2; }) ==
        "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank");
  CHECK(refused_stages([](Options& o) {
          o.split.layer_counts = {2, 2}, o.virtual_stages = 2;
        }) == "--num-virtual-stages-per-pipeline-rank");
  CHECK(refused_stages([](Options& o) {
          o.split.layer_counts = {2, 2}, o.layers_per_virtual_stage = 2;
        }) == "--num-layers-per-virtual-pipeline-stage");
  std::string balanced = "--pipeline-split balanced, " + std::string(kNeeding);
  for (std::size_t at = 0; (at = balanced.find("; --", at)) != std::string::npos; at += 4)
    balanced.replace(at, 4, "; --pipeline-split balanced, --");
  CHECK(refused_stages([](Options& o) {
          o.pipeline_split = "balanced";
          o.layers_per_virtual_stage = 2;
          o.split.first_stage_layers = o.split.last_stage_layers = 2;
          o.split.account_for_embedding = o.split.account_for_loss = true;
        }) == balanced);
  CHECK(refused_stages([](Options& o) {
          o.pipeline_split = "balanced", o.split.layer_counts = {2, 2};
        }) == "--pipeline-split balanced, --pipeline-model-parallel-layout");
  CHECK(refused_stages([](Options& o) { o.virtual_stages = 2; }) == "");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = 3; }, 8) == "--num-layers 8");
  CHECK(refused_stages([](Options& o) { o.layers_per_virtual_stage = 2; }, 8) == "");
  const auto both = [](Options& o) { o.split.account_for_embedding = o.split.account_for_loss = true; };
  CHECK(refused_stages(both, 6) == "");
  CHECK(refused_stages(
            [](Options& o) {
              o.split.account_for_embedding = o.split.account_for_loss = true;
              o.layers_per_virtual_stage = 4;  // one chunk
            },
            8) == "");
  CHECK(refused_stages(
            [](Options& o) {
              o.split.account_for_embedding = o.split.account_for_loss = true;
              o.virtual_stages = 2;
            },
            6) == "");
  CHECK(refused_stages([](Options& o) { o.pipeline = 4; }, 2) == "--num-layers 2");
  CHECK(refused_stages([](Options& o) { o.pipeline = 4, o.pipeline_split = "balanced"; }, 2) == "");
  CHECK(refused_stages([](Options& o) { o.pipeline = 4, o.pipeline_split = "balanced"; }, 1) ==
        "--pipeline-split balanced");
  for (const bool embedding : {false, true}) {
    CAPTURE(embedding);
    const auto with_account = [](Options& o) { o.split.account_for_loss = true, o.layers_per_virtual_stage = 2; };
    const auto with_embedding = [](Options& o) {
      o.split.account_for_embedding = true, o.layers_per_virtual_stage = 2;
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
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) { o.batch.global_batch_size = std::int64_t{1} << 52; }) ==
        "--global-batch-size, --seq-length");
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) {
          o.batch.train_iters = INT64_MAX, o.batch.global_batch_size = 4;  // check_batches() reports it
        }) == "");
  CHECK(refused_model(1, 64, 32, keep) == "--seq-length 64");
  CHECK(refused_model(1, 64, 32, [](TrainOptions& o) { o.architecture.rotary_embeddings = true; }) ==
        "--seq-length 64");
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) { o.batch.train_iters = std::int64_t{1} << 60; }) ==
        "--train-iters, --global-batch-size, --seq-length");
  CHECK(refused_model(1, 64, 64, [](TrainOptions& o) { o.batch.train_samples = std::int64_t{1} << 60; }) ==
        "--train-samples, --seq-length");
}
