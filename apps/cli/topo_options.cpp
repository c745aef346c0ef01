#include "cli/topo_options.h"

#include <algorithm>
#include <filesystem>

#include "cli/layout_flags.h"
#include "cli/precision_flags.h"

namespace mtl {

namespace {

/// Returns `order` without `axis`, for a grid that lacks it.
std::string order_without(const std::string& order, const char* axis) {
  std::vector<std::string> kept;
  for (const std::string& name : split(order, '-')) {
    if (name != axis) kept.push_back(name);
  }
  return join(kept, "-");
}

}  // namespace

std::string TopoOptions::order() const {
  if (rank_order) return *rank_order;
  return run.parallel.tp_pp_dp_mapping ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp";
}

RankGrid TopoOptions::grid() const {
  const ParallelOptions& parallel = run.parallel;
  GridSizes sizes;
  sizes.tensor = static_cast<int>(parallel.tensor);
  sizes.context = static_cast<int>(parallel.context);
  sizes.pipeline = static_cast<int>(parallel.pipeline);
  sizes.data = static_cast<int>(parallel.data());
  return RankGrid(sizes, order_without(order(), "ep"));
}

RankGrid TopoOptions::expert_grid() const {
  const ParallelOptions& parallel = run.parallel;
  GridSizes sizes;
  sizes.tensor = static_cast<int>(parallel.tensor);
  sizes.expert = static_cast<int>(expert);
  sizes.pipeline = static_cast<int>(parallel.pipeline);
  sizes.data = static_cast<int>(parallel.world / (parallel.tensor * expert * parallel.pipeline));
  return RankGrid(sizes, order_without(order(), "cp"));
}

std::int64_t TopoOptions::node_size() const {
  return gpus_per_node.value_or(std::min<std::int64_t>(run.parallel.world, 8));
}

std::vector<std::string> TopoOptions::host_names() const {
  return hosts ? split(*hosts, ',') : std::vector<std::string>();
}

std::int64_t TopoOptions::chunks() const {
  if (virtual_stages) return *virtual_stages;
  if (layers_per_virtual_stage)
    return *run.architecture.num_layers / (run.parallel.pipeline * *layers_per_virtual_stage);
  return 1;
}

Layout TopoOptions::stage_layout() const {
  Layout out = run.parallel.layout;
  out.grid = RankGrid({.pipeline = static_cast<int>(run.parallel.pipeline)});
  out.schedule = schedule_kind();
  out.chunks = static_cast<int>(chunks());
  out.group = static_cast<int>(group.value_or(0));
  return out;
}

bool TopoOptions::wants_memory() const {
  const ArchitectureOptions& model = run.architecture;
  return model.hidden_size || model.num_attention_heads || model.ffn_hidden_size || model.max_position_embeddings ||
         run.data.seq_length != 0;
}

std::optional<std::int64_t> TopoOptions::step_micro_batches() const {
  if (micro_batches || !run.batch.global_batch_size) return micro_batches;
  return run.micro_batches();
}

bool TopoOptions::fits_chart() const {
  return run.parallel.pipeline <= kMostChartStages &&
         run.parallel.pipeline * step_micro_batches().value_or(1) * chunks() <= kMostChartForwards;
}

std::string TopoOptions::unsupported_reason() const {
  if (run.parallel.context > 1) return "mtl-train does not support context parallelism yet";
  if (expert > 1) return "mtl-train does not support experts yet";
  if (chunks() > 1 || schedule == "interleaved") return "mtl-train does not support interleaved schedules yet";
  RankGrid drawn = grid(), trained = layout_of(run.parallel, 0).grid;
  for (int rank = 0; rank < drawn.world(); ++rank) {
    for (Axis axis : {Axis::tensor, Axis::data, Axis::pipeline}) {
      if (drawn.coordinate(rank, axis) != trained.coordinate(rank, axis))
        return "mtl-train does not support this rank order, only tp-cp-ep-dp-pp and tp-cp-ep-pp-dp";
    }
  }
  return "";
}

TrainOptions TopoOptions::train_options() const {
  TrainOptions out = run;
  if (schedule) out.parallel.schedule = *schedule;
  if (!out.batch.global_batch_size)
    out.batch.global_batch_size = out.batch.micro_batch_size * out.parallel.data() * micro_batches.value_or(1);
  out.threads = cores_per_rank;
  out.dry_run = true;
  return out;
}

ScheduleKind TopoOptions::schedule_kind() const {
  if (!schedule) return chunks() > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
  return *schedule == "gpipe"  ? ScheduleKind::gpipe
         : *schedule == "1f1b" ? ScheduleKind::one_forward_one_backward
                               : ScheduleKind::interleaved;
}

std::string TopoOptions::output_format() const {
  if (format) return *format;
  if (!output || *output == "-") return "text";
  std::string ending = std::filesystem::path(*output).extension().string();
  for (auto [known, name] : {std::pair(".txt", "text"), std::pair(".svg", "svg"), std::pair(".json", "json"),
                             std::pair(".rankfile", "rankfile")}) {
    if (ending == known) return name;
  }
  return "";
}

namespace {

/// Adds other mtl-train flags that scripts pass along with a layout.
void add_train_spellings(Flags& flags, TopoOptions& options) {
  ParallelOptions& parallel = options.run.parallel;
  flags.add_switch("--overlap-grad-reduce", parallel.overlap_grad_reduce, "as in mtl-train; does not change the plan")
      .only_with("on one data-parallel rank", [&parallel] { return parallel.data() > 1; });
  flags.add_switch("--overlap-param-gather", parallel.overlap_param_gather, "as in mtl-train; does not change the plan")
      .only_with("on one data-parallel rank", [&parallel] { return parallel.data() > 1; })
      .needs("--use-distributed-optimizer: otherwise nothing is gathered",
             [&parallel] { return parallel.distributed_optimizer; })
      .needs("--overlap-grad-reduce too, as in Megatron-LM", [&parallel] { return parallel.overlap_grad_reduce; });
  flags.add("--zero-stage", &options.run.fixed.zero_stage, "N", "1: same as --use-distributed-optimizer; 0: no effect")
      .within({0, 3});
  flags.foreign.acknowledge(1, "has no effect on a plan", "--distributed-timeout-minutes");
  const char* gpus = "has no effect on a plan for CPUs; mtl-train --dry-run --device cuda plans for GPUs";
  flags.foreign.acknowledge(0, gpus, "--optimizer-cpu-offload --cpu-offloading");
  flags.foreign.acknowledge(1, gpus, "--cpu-offloading-num-layers");
  flags.check([&flags, &options] {
    std::int64_t stage = options.run.fixed.zero_stage;
    if (stage == 1) options.run.parallel.distributed_optimizer = true;
    if (stage > 1) flags.problem(cat("--zero-stage ", stage), "is not supported; only 0 and 1 are");
  });
}

}  // namespace

void add_topo_flags(Flags& flags, TopoOptions& options) {
  flags.section("Ranks");
  flags.add("--world-size", &options.run.parallel.world, "N", "number of ranks").required().within({1, kLargestWorld});
  add_grid_flags(flags, options.run.parallel);
  flags.add("--expert-model-parallel-size", &options.expert, "N", "ranks that share the experts")
      .within({1, kLargestWorld});
  flags.add("--rank-order", &options.rank_order, "ORDER", "axis order, fastest first (default: tp-cp-ep-dp-pp)");
  flags.add("--gpus-per-node", &options.gpus_per_node, "N", "ranks per node (default: 8)").within({1, kLargestWorld});
  flags.add("--hosts", &options.hosts, "LIST", "node names, separated by commas");
  flags
      .add("--cores-per-rank,--threads", &options.cores_per_rank, "N",
           "cores of each rank in a rankfile, and its threads")
      .within({1, kMostCores});

  flags.section("Model");
  add_architecture_flags(flags, options.run, [] { return false; });
  flags.add("--vocab-size", &options.run.tokenizer.vocab_size, "N", "tokens in the vocabulary, before padding")
      .within({1, INT32_MAX});
  flags.add("--seq-length", &options.run.data.seq_length, "N", "tokens per sample").within({1, INT32_MAX});
  flags
      .add("--num-layers-per-virtual-pipeline-stage", &options.layers_per_virtual_stage, "N",
           "layers per chunk, for stages of several chunks")
      .within({1, kMostLayers});
  flags.add("--num-virtual-stages-per-pipeline-rank", &options.virtual_stages, "N", "chunks per stage")
      .within({1, kMostLayers});
  add_stage_flags(flags, options.run.parallel);
  add_sharing_flags(flags, options.run.parallel);
  add_recompute_flags(flags, options.run.parallel);
  add_train_spellings(flags, options);
  flags.add_switch("--reset-attention-mask", options.run.data.reset_attention_mask,
                   "let no token attend to documents before its own");

  flags.section("Precision");
  add_precision_flags(flags, options.run.precision);

  flags.section("Schedule");
  flags
      .add("--schedule,--pipeline-schedule", &options.schedule, "NAME",
           "schedule to draw (default: 1f1b, or interleaved with several chunks per stage)")
      .one_of({"1f1b", "gpipe", "interleaved"});
  flags.add("--micro-batches", &options.micro_batches, "N", "micro-batches per step and replica")
      .within({1, kMostMicroBatches});
  add_batch_size_flags(flags, options.run.batch);
  flags
      .add("--microbatch-group-size-per-virtual-pipeline-stage", &options.group, "N",
           "consecutive micro-batches of a chunk before the next chunk's turn (default: as many as stages)")
      .within({1, INT32_MAX});

  flags.section("Output");
  flags.add("--format", &options.format, "NAME", "output format (default: by the extension of FILE, else text)")
      .one_of({"text", "svg", "json", "rankfile"});
  flags.add("--output,-o", &options.output, "FILE", "file to write; .txt, .svg, .json or .rankfile chooses the format");
}

}  // namespace mtl
