// Changes of a layout: what a run can do, and the flags for it.
#include "run/layout_changes.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

TrainOptions run_on(std::int64_t ranks) {
  TrainOptions out;
  out.parallel.world = ranks;
  out.device = Device::cuda;
  out.data.seq_length = 64;
  out.batch.global_batch_size = 16;
  out.dry_run = true;
  return out;
}

GptConfig model() { return test::gpt_of_size({.vocab = 64, .layers = 8, .hidden = 32, .heads = 4, .positions = 64}); }

std::string flags(const TrainOptions& from, const TrainOptions& to) { return join(changed_flags(from, to), " "); }

}  // namespace

TEST_CASE("layout changes: each saving has its flags, and is done once") {
  for (const auto& [saving, expected] :
       {std::pair(Saving::recompute_attention, "--recompute-granularity selective"),
        std::pair(Saving::recompute_layers, "--recompute-granularity full --recompute-method uniform"),
        std::pair(Saving::offload_optimizer, "--optimizer-cpu-offload"),
        std::pair(Saving::offload_activations, "--cpu-offloading"),
        std::pair(Saving::offload_to_files, "--offload-optimizer DIR")}) {
    TrainOptions run = run_on(1);
    CHECK(save(run, saving));
    CHECK(flags(run_on(1), run) == expected);
    CHECK(can_run(run, model()));
    CHECK_FALSE(save(run, saving));
    TrainOptions on_cpu = run_on(1);
    on_cpu.device = Device::cpu;
    CHECK(save(on_cpu, saving) == (saving != Saving::offload_optimizer && saving != Saving::offload_activations));
  }
  TrainOptions on_host = run_on(1), in_files = on_host;
  save(on_host, Saving::offload_optimizer);
  in_files = on_host;
  CHECK(save(in_files, Saving::offload_to_files));
  CHECK(flags(on_host, in_files) == "--offload-optimizer DIR without --optimizer-cpu-offload");
  CHECK_FALSE(in_files.parallel.optimizer_cpu_offload);
  CHECK_FALSE(save(in_files, Saving::offload_optimizer));
  TrainOptions recomputed = run_on(1);
  save(recomputed, Saving::recompute_layers);
  CHECK_FALSE(save(recomputed, Saving::recompute_attention));
  CHECK_FALSE(save(recomputed, Saving::offload_activations));
  TrainOptions offloaded = run_on(1);
  save(offloaded, Saving::offload_activations);
  CHECK_FALSE(save(offloaded, Saving::recompute_layers));
  TrainOptions selective = run_on(1), by_name = selective, some = selective, by_old_name = selective;
  selective.parallel.recompute_granularity = "selective";
  by_name.parallel.recompute_activations = true;
  some.parallel.recompute_granularity = "full";
  some.parallel.recompute_method = "block";
  some.parallel.recompute_num_layers = 4;
  by_old_name.parallel.checkpoint_method = "block";
  const auto to_all = [](const TrainOptions& from) {
    TrainOptions to = from;
    CHECK_FALSE(save(to, Saving::recompute_attention));
    const bool saves = save(to, Saving::recompute_layers);
    CHECK(saves == (recompute_of(to.parallel) != recompute_of(from.parallel)));
    return flags(from, to);
  };
  CHECK(to_all(selective) == "--recompute-granularity full --recompute-method uniform");
  CHECK(to_all(by_name) == "--recompute-granularity full --recompute-method uniform without --recompute-activations");
  CHECK(to_all(some) == "--recompute-method uniform --recompute-num-layers 1");
  CHECK(to_all(by_old_name) == "");
}

TEST_CASE(
    "layout changes: ZeRO stages are those that the pipeline and its schedule allow, and mtl-train accepts them") {
  using Stages = std::vector<std::int64_t>;
  const auto stages = [](std::int64_t ranks, std::int64_t pipeline, const char* schedule) {
    TrainOptions run = run_on(ranks);
    run.parallel.pipeline = pipeline;
    if (pipeline > 1) run.parallel.schedule = schedule;
    Stages out = zero_stages(run.parallel);
    for (std::int64_t stage : out) {
      set_zero_stage(run.parallel, stage);
      CHECK(run.parallel.zero() == stage);
      CHECK(run.parallel.distributed_optimizer == (stage > 0));
      CHECK(can_run(run, model()));
    }
    return out;
  };
  ParallelOptions by_switch;
  by_switch.distributed_optimizer = true;
  CHECK(by_switch.zero() == 1);
  CHECK(stages(1, 1, "") == Stages{0});
  CHECK(stages(2, 2, "1f1b") == Stages{0});
  CHECK(stages(4, 1, "") == Stages{0, 1, 2, 3});
  CHECK(stages(4, 2, "1f1b") == Stages{0, 1, 2});
  CHECK(stages(4, 2, "zb-h1") == Stages{0, 1});
}

TEST_CASE("layout changes: flags say every difference, and the batch where it would change") {
  const TrainOptions from = run_on(8);
  TrainOptions to = from;
  to.parallel.tensor = 2;
  to.parallel.sequence_parallel = true;
  to.parallel.pipeline = 2;
  to.parallel.schedule = "interleaved";
  to.parallel.virtual_stages = 2;
  to.parallel.pipeline_split = "balanced";
  set_zero_stage(to.parallel, 1);
  CHECK(flags(from, to) ==
        "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --pipeline-schedule "
        "interleaved --num-virtual-stages-per-pipeline-rank 2 --pipeline-split balanced --use-distributed-optimizer");
  TrainOptions in_turn = to;
  in_turn.parallel.schedule = "1f1b";
  in_turn.parallel.virtual_stages.reset();
  CHECK(flags(to, in_turn) == "--pipeline-schedule 1f1b without --num-virtual-stages-per-pipeline-rank");
  to = from;
  CHECK(flags(from, to).empty());
  to.batch.micro_batch_size = 2;
  set_zero_stage(to.parallel, 3);
  CHECK(flags(from, to) == "--zero-stage 3 --micro-batch-size 2");
  to = from;
  to.batch.global_batch_size = 32;
  CHECK(flags(from, to) == "--global-batch-size 32");
  to.batch.rampup = {"16", "16", "64"};
  to.batch.micro_batch_size = 2;
  CHECK(flags(from, to) == "--micro-batch-size 2");
  to = from;
  to.parallel.context = 2;
  to.parallel.overlap_grad_reduce = to.parallel.overlap_param_gather = true;
  to.parallel.schedule = "1f1b";
  CHECK(flags(from, to) ==
        "--context-parallel-size 2 --pipeline-schedule 1f1b --overlap-grad-reduce --overlap-param-gather");
  CHECK(flags(to, to) == "");
  CHECK(flags(to, from) == "--context-parallel-size 1 without --pipeline-schedule");
  TrainOptions by_micro_batch = from;
  by_micro_batch.batch.global_batch_size.reset();
  to = by_micro_batch;
  to.parallel.recompute_granularity = "selective";
  CHECK(flags(by_micro_batch, to) == "--recompute-granularity selective");
  to.batch.micro_batch_size = 2;
  to.batch.global_batch_size = 8;
  CHECK(flags(by_micro_batch, to) == "--recompute-granularity selective --micro-batch-size 2 --global-batch-size 8");
  to = from;
  to.precision.bf16 = true;
  to.data.seq_length = 32;
  CHECK(flags(from, to) == "--bf16 --seq-length 32");
}

TEST_CASE("layout changes: what mtl-train refuses cannot run") {
  TrainOptions run = run_on(2);
  run.parallel.pipeline = 2;
  run.parallel.cpu_offloading = true;
  CHECK(can_run(run, model()));
  run.parallel.pipeline_split = "balanced";
  CHECK_FALSE(can_run(run, model()));
  run.parallel.cpu_offloading = false;
  CHECK(can_run(run, model()));
  run = run_on(8);
  run.parallel.tensor = 8;  // more than heads
  CHECK_FALSE(can_run(run, model()));
  run = run_on(3);
  run.parallel.tensor = 2;
  CHECK_FALSE(can_run(run, model()));
}
