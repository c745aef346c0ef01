// The settings that are suggested where a run does not fit: which, in which order, and for which runs.
#include "run/fitting_settings.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "run/layout_changes.h"
#include "run/run_plan.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

TrainOptions run_on(std::int64_t tensor, std::int64_t pipeline, std::int64_t data) {
  TrainOptions out;
  out.parallel.tensor = tensor;
  out.parallel.pipeline = pipeline;
  out.parallel.world = tensor * pipeline * data;
  out.data.seq_length = 64;
  out.batch.micro_batch_size = 4;
  out.batch.global_batch_size = 16 * data;
  out.batch.train_iters = 4;
  out.optimizer.schedule.lr = 0.1;
  out.threads = 1;
  return out;
}

FitStart start_of(const test::GptSizes& size) { return {.config = test::gpt_of_size(size)}; }

/// Returns the flags of the suggestions for a run of which each rank, or each host, may use this part of what it needs.
std::string suggested(const TrainOptions& options, const FitStart& start, double part, int ranks_per_host = 0) {
  const std::vector<RankPlan> plans = plan_run(options, start.config);
  const HostRanks host{.first = 0, .count = ranks_per_host == 0 ? int(options.parallel.world) : ranks_per_host};
  const MemoryNeed need = MemoryNeed::of(plans_by_rank(plans), host);
  const bool is_per_process = ranks_per_host == 0;
  const auto limit = static_cast<std::uint64_t>(part * double(is_per_process ? need.rank_bytes : need.host_bytes));
  std::string out;
  const std::string recompute = "--recompute-granularity full --recompute-method uniform";
  for (std::string line : find_fitting_settings(
           options, start, host, {{{.bytes = limit, .name = "limit", .is_per_process = is_per_process}}, {}})) {
    line = line.substr(3, line.find(": ") - 3);
    if (const std::size_t at = line.find(recompute); at != std::string::npos)
      line.replace(at, recompute.size(), "RECOMPUTE");
    out += line + "\n";
  }
  return out;
}

double bytes_of(const TrainOptions& options, const FitStart& start) {
  return double(largest_plan(plan_run(options, start.config)).plan.total_bytes());
}

}  // namespace

TEST_CASE("fitting settings: the smallest changes come first, then those of the layout, then smaller models") {
  constexpr test::GptSizes kSizes = {.vocab = 64, .layers = 8, .hidden = 64, .heads = 4, .positions = 64};
  const FitStart start = start_of(kSizes);
  FitStart resumed = start_of(kSizes);
  const FitStart narrow = start_of({.vocab = 64, .layers = 1, .hidden = 64, .heads = 1, .positions = 64});
  resumed.resumes = true;
  TrainOptions gpipe = run_on(2, 2, 2), cyclic = run_on(1, 1, 2), alone = run_on(1, 1, 1), single = alone;
  gpipe.parallel.schedule = "gpipe";
  cyclic.data.dataloader_type = "cyclic";
  alone.batch.micro_batch_size = 1;
  alone.batch.global_batch_size.reset();
  TrainOptions longer = alone, unset = run_on(1, 1, 1);
  unset.batch.global_batch_size.reset();
  longer.data.seq_length = 1024;
  const FitStart extended = start_of({.vocab = 64, .layers = 1, .hidden = 64, .heads = 1, .positions = 1024});
  struct Case {
    const TrainOptions& options;
    const FitStart& start;
    double part;
    int ranks_per_host;
    const char* expected;
  };
  const TrainOptions tensor = run_on(2, 1, 1), pipeline = run_on(1, 2, 2), data = run_on(1, 1, 4);
  const Case cases[] = {
      {single, start, .95, 0,
       "--micro-batch-size 2\n"
       "RECOMPUTE\n"
       "--tensor-model-parallel-size 2 on 2 ranks\n"},
      {single, start, .65, 0,
       "--micro-batch-size 1\n"
       "RECOMPUTE\n"
       "--tensor-model-parallel-size 4 on 4 ranks\n"},
      {single, start, .5, 0,
       "RECOMPUTE --micro-batch-size 2\n"
       "--tensor-model-parallel-size 2 --micro-batch-size 1 on 2 ranks\n"
       "--pipeline-model-parallel-size 2 --micro-batch-size 1 on 2 ranks\n"},
      {single, start, .4, 0,
       "--tensor-model-parallel-size 2 --micro-batch-size 1 on 2 ranks\n"
       "--pipeline-model-parallel-size 2 RECOMPUTE --micro-batch-size 1 on 2 ranks\n"
       "--num-layers 2\n"},
      {single, start, .3, 0,
       "--tensor-model-parallel-size 4 RECOMPUTE --micro-batch-size 1 on 4 ranks\n"
       "--num-layers 1\n"
       "--micro-batch-size 1 --num-layers 2\n"},
      {single, start, .2, 0,
       "--num-layers 1\n"
       "--micro-batch-size 1 --num-layers 2\n"},
      {single, start, .15, 0, "--micro-batch-size 1 --num-layers 1\n"},
      {tensor, start, .95, 0,
       "--micro-batch-size 2\n"
       "--sequence-parallel\n"
       "RECOMPUTE\n"},
      {tensor, start, .65, 0,
       "--micro-batch-size 1\n"
       "RECOMPUTE\n"
       "--seq-length 16\n"},
      {tensor, start, .5, 0,
       "RECOMPUTE --micro-batch-size 1\n"
       "--tensor-model-parallel-size 4 --sequence-parallel --micro-batch-size 1 on 4 ranks\n"
       "--seq-length 4\n"},
      {tensor, start, .4, 0,
       "--num-layers 2\n"
       "--sequence-parallel --micro-batch-size 1 --num-layers 4\n"},
      {tensor, start, .3, 0,
       "--num-layers 1\n"
       "--sequence-parallel --micro-batch-size 1 --num-layers 2\n"},
      {gpipe, start, .95, 0,
       "--sequence-parallel\n"
       "--pipeline-schedule 1f1b\n"
       "RECOMPUTE\n"},
      {gpipe, start, .65, 0,
       "RECOMPUTE\n"
       "--pipeline-schedule 1f1b --micro-batch-size 2\n"
       "--pipeline-schedule 1f1b --use-distributed-optimizer\n"},
      {gpipe, start, .5, 0,
       "--pipeline-schedule 1f1b --micro-batch-size 1\n"
       "--pipeline-schedule 1f1b RECOMPUTE\n"
       "--tensor-model-parallel-size 4 --sequence-parallel --pipeline-schedule 1f1b\n"},
      {gpipe, start, .3, 0,
       "--sequence-parallel --pipeline-schedule 1f1b --zero-stage 2 --micro-batch-size 1 --num-layers 2\n"},
      {pipeline, start, .95, 0,
       "--micro-batch-size 2\n"
       "--use-distributed-optimizer\n"
       "RECOMPUTE\n"},
      {pipeline, start, .8, 0,
       "--micro-batch-size 2\n"
       "RECOMPUTE\n"
       "--tensor-model-parallel-size 2\n"},
      {pipeline, start, .5, 0,
       "--use-distributed-optimizer --micro-batch-size 1\n"
       "RECOMPUTE --micro-batch-size 1\n"
       "--tensor-model-parallel-size 2 --micro-batch-size 2\n"},
      {pipeline, start, .4, 0,
       "--tensor-model-parallel-size 2 --micro-batch-size 1\n"
       "--use-distributed-optimizer RECOMPUTE --micro-batch-size 1\n"
       "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 1 RECOMPUTE\n"},
      {data, start, .95, 0,
       "--micro-batch-size 2\n"
       "--use-distributed-optimizer\n"
       "RECOMPUTE\n"},
      {data, start, .8, 0,
       "--micro-batch-size 2\n"
       "--zero-stage 3\n"
       "RECOMPUTE\n"},
      {data, start, .3, 0,
       "--tensor-model-parallel-size 4 --sequence-parallel --micro-batch-size 1\n"
       "--tensor-model-parallel-size 4 --recompute-granularity selective --micro-batch-size 1\n"
       "--tensor-model-parallel-size 4 RECOMPUTE --micro-batch-size 2\n"},
      {data, start, .2, 0, "--zero-stage 3 --micro-batch-size 1 --num-layers 1\n"},
      {single, start, .5, 1,
       "RECOMPUTE --micro-batch-size 2\n"
       "--tensor-model-parallel-size 2 --micro-batch-size 1 on 2 ranks, 1 per host\n"
       "--pipeline-model-parallel-size 2 --micro-batch-size 1 on 2 ranks, 1 per host\n"},
      {single, start, .4, 1,
       "--tensor-model-parallel-size 2 --micro-batch-size 1 on 2 ranks, 1 per host\n"
       "--pipeline-model-parallel-size 2 RECOMPUTE --micro-batch-size 1 on 2 ranks, 1 per host\n"
       "--num-layers 2\n"},
      {single, start, .3, 1,
       "--tensor-model-parallel-size 4 RECOMPUTE --micro-batch-size 1 on 4 ranks, 1 per host\n"
       "--num-layers 1\n"
       "--micro-batch-size 1 --num-layers 2\n"},
      {data, start, .6, 2,
       "--tensor-model-parallel-size 4\n"
       "--zero-stage 2 --micro-batch-size 2\n"
       "RECOMPUTE --micro-batch-size 2\n"},
      {cyclic, resumed, .9, 0,
       "--zero-stage 2\n"
       "RECOMPUTE\n"
       "--tensor-model-parallel-size 2 on 4 ranks\n"},
      {cyclic, resumed, .6, 0,
       "--use-distributed-optimizer RECOMPUTE\n"
       "--tensor-model-parallel-size 4 on 8 ranks\n"
       "--seq-length 16\n"},
      {cyclic, resumed, .5, 0,
       "--zero-stage 2 RECOMPUTE\n"
       "--seq-length 4\n"
       "--num-layers 2\n"},
      {cyclic, resumed, .3, 0,
       "--num-layers 1\n"
       "--zero-stage 3 RECOMPUTE --num-layers 2\n"},
      {cyclic, start, .6, 0,
       "--micro-batch-size 1\n"
       "--use-distributed-optimizer RECOMPUTE\n"
       "--tensor-model-parallel-size 2 --sequence-parallel\n"},
      {longer, extended, .9, 0,
       "--bf16\n"
       "--seq-length 512\n"},
      {unset, start, .95, 0,
       "--micro-batch-size 2 --global-batch-size 4\n"
       "RECOMPUTE\n"
       "--tensor-model-parallel-size 2 on 2 ranks\n"},
      {alone, narrow, .9, 0, "--seq-length 32\n"},
      {alone, narrow, .8, 0, "--seq-length 16\n"},
      {alone, narrow, .7, 0, ""},
  };
  for (const Case& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    CHECK(suggested(each.options, each.start, each.part, each.ranks_per_host) == std::string(each.expected));
  }
}

TEST_CASE("fitting settings: runs whose batches vary or are rounded, with chunks, and with short parts of sequences") {
  const FitStart start = start_of({.vocab = 64, .layers = 8, .hidden = 64, .heads = 4, .positions = 64});
  TrainOptions ramp = run_on(1, 1, 2), rounded = ramp, scheduled = ramp;
  ramp.batch.rampup = {"16", "8", "100"};
  ramp.batch.train_iters.reset();
  ramp.batch.train_samples = 1000;
  rounded.batch.global_batch_size = 30;
  rounded.batch.decrease_if_needed = true;
  scheduled.batch.schedule = "0:16 6400:32";
  scheduled.batch.train_iters.reset();
  scheduled.batch.train_samples = 1000;
  CHECK(suggested(ramp, start, .95) == "--micro-batch-size 2\n--use-distributed-optimizer\nRECOMPUTE\n");
  CHECK(suggested(rounded, start, .95) == "--micro-batch-size 2\n--use-distributed-optimizer\nRECOMPUTE\n");
  CHECK(suggested(scheduled, start, .95) == "--micro-batch-size 2\n--use-distributed-optimizer\nRECOMPUTE\n");
  TrainOptions chunks = run_on(1, 2, 1);
  chunks.parallel.virtual_stages = 4;
  CHECK(suggested(chunks, start, .95) ==
        "--micro-batch-size 2\n--pipeline-schedule 1f1b without "
        "--num-virtual-stages-per-pipeline-rank\n--num-virtual-stages-per-pipeline-rank 2\n");
  TrainOptions by_layers = run_on(1, 2, 1), by_text = by_layers, grouped = by_layers, named = run_on(1, 1, 2);
  by_layers.parallel.layers_per_virtual_stage = 1;
  CHECK(suggested(by_layers, start, .95) ==
        "--micro-batch-size 2\n--pipeline-schedule 1f1b without "
        "--num-layers-per-virtual-pipeline-stage\n--num-virtual-stages-per-pipeline-rank 2 without "
        "--num-layers-per-virtual-pipeline-stage\n");
  by_text.parallel.layer_layout = "Ett|tt|tt|ttL";
  by_text.parallel.split.layer_counts = {2, 2, 2, 2};
  CHECK(suggested(by_text, start, .95) ==
        "--micro-batch-size 2\n--pipeline-schedule 1f1b without "
        "--pipeline-model-parallel-layout\nRECOMPUTE\n");
  grouped.parallel.virtual_stages = 2;
  grouped.parallel.group = 5;
  grouped.batch.micro_batch_size = 2;
  grouped.batch.global_batch_size = 10;  // 5 micro-batches on 2 stages
  CHECK(suggested(grouped, start, .9) ==
        "--micro-batch-size 1\nRECOMPUTE\n--tensor-model-parallel-size 2 on 4 ranks\n");
  named.batch.micro_batch_size = 1;
  named.parallel.fsdp = "shard_grad_op";
  set_zero_stage(named.parallel, 2);
  CHECK(suggested(named, start, .6) == "--num-layers 2\n--zero-stage 3 RECOMPUTE without --fsdp --num-layers 4\n");
  TrainOptions parts = run_on(1, 1, 2);
  parts.parallel.context = 2;
  CHECK(suggested(parts, start, .95) == "--micro-batch-size 2\n--use-distributed-optimizer\nRECOMPUTE\n");
}

TEST_CASE("fitting settings: ZeRO 1 where a large bucket makes ZeRO 2 and 3 need more") {
  const FitStart start = start_of({.vocab = 1024, .layers = 2, .hidden = 64, .heads = 4, .positions = 64});
  TrainOptions run = run_on(1, 1, 4);
  run.parallel.bucket_elements = 100'000'000;
  const auto bytes = [&](std::int64_t zero, std::int64_t micro_batch) {
    TrainOptions changed = run;
    set_zero_stage(changed.parallel, zero);
    changed.batch.micro_batch_size = micro_batch;
    return bytes_of(changed, start);
  };
  REQUIRE(bytes(1, 1) < std::min(bytes(2, 1), bytes(3, 1)));
  const double part = (bytes(1, 1) + .5) / bytes(0, 4);
  CHECK(suggested(run, start, part) ==
        "--tensor-model-parallel-size 4\n--use-distributed-optimizer --micro-batch-size 1\n"
        "--pipeline-model-parallel-size 4 --pipeline-split balanced --micro-batch-size 1\n");
}

TEST_CASE("fitting settings: one stage without the schedule that deferred weight gradients") {
  const FitStart start = start_of({.vocab = 64, .layers = 8, .hidden = 256, .heads = 1, .positions = 16});
  TrainOptions run = run_on(1, 2, 31);
  run.data.seq_length = 16;
  run.parallel.schedule = "zb-h1";
  set_zero_stage(run.parallel, 1);
  run.batch.micro_batch_size = 1;
  TrainOptions changed = run;
  changed.parallel.schedule.reset();
  changed.parallel.pipeline = 1;
  set_zero_stage(changed.parallel, 3);
  REQUIRE(can_run(changed, start.config));
  const double part = (bytes_of(changed, start) + .5) / bytes_of(run, start);
  CHECK(suggested(run, start, part) ==
        "--pipeline-model-parallel-size 1 --zero-stage 3 without --pipeline-schedule\n"
        "--pipeline-model-parallel-size 8 on 248 ranks\n--num-layers 4\n");
}

TEST_CASE("fitting settings: the only grid of many that fits, which differs from the run's in two axes") {
  const FitStart start = start_of({.vocab = 50'257, .layers = 24, .hidden = 3840, .heads = 30, .positions = 2048});
  TrainOptions run = run_on(1, 1, 72);
  run.device = Device::cuda;
  run.precision.bf16 = true;
  run.data.seq_length = 2048;
  run.batch.micro_batch_size = 1;
  run.batch.global_batch_size = 288;
  TrainOptions changed = run;
  changed.parallel.tensor = 6;
  changed.parallel.context = 4;
  set_zero_stage(changed.parallel, 3);
  for (Saving each : {Saving::offload_activations, Saving::offload_to_files}) REQUIRE(save(changed, each));
  const HostRanks host{.first = 0, .count = 8};
  const std::vector<RankPlan> plans = plan_run(changed, start.config);
  const std::uint64_t bytes = MemoryNeed::of(plans_by_rank(plans), host).gpu_bytes;
  const FitLimits limits{.gpu = MemoryLimit{.bytes = bytes, .name = "limit", .is_per_process = true}};
  const std::string lines = join(find_fitting_settings(run, start, host, limits), "");
  CHECK(starts_with(lines,
                    "\n  --tensor-model-parallel-size 6 --context-parallel-size 4 --zero-stage 3 --cpu-offloading "
                    "--offload-optimizer DIR: "));
}

TEST_CASE("fitting settings: what a changed run needs besides its plan counts") {
  const FitStart start = start_of({.vocab = 64, .layers = 8, .hidden = 64, .heads = 4, .positions = 64});
  TrainOptions run = run_on(1, 1, 1);
  run.batch.micro_batch_size = 1;
  const auto bytes = static_cast<std::uint64_t>(bytes_of(run, start) * 2 / 3);
  FitLimits limits{.host = {{.bytes = bytes, .name = "limit", .is_per_process = true}}};
  const auto lines = [&] { return join(find_fitting_settings(run, start, {.first = 0, .count = 1}, limits), ""); };
  CHECK(lines().find(" on 2 ranks") != std::string::npos);
  limits.host_of = [&](const TrainOptions& changed, int) {
    std::vector<MemoryLimit> out = limits.host;
    if (changed.parallel.world > 1) out[0].bytes = 0;
    return out;
  };
  CHECK(lines() != "");
  CHECK(lines().find(" ranks") == std::string::npos);
}
