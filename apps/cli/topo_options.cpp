#include "cli/topo_options.h"

#include <algorithm>
#include <filesystem>

#include "cli/layout_flags.h"
#include "cli/precision_flags.h"

namespace mtl {

std::int64_t TopoOptions::node_size() const {
  return gpus_per_node.value_or(std::min<std::int64_t>(run.parallel.world, 8));
}

std::vector<std::string> TopoOptions::host_names() const {
  return hosts ? split(*hosts, ',') : std::vector<std::string>();
}

std::int64_t TopoOptions::chunks() const { return run.parallel.chunks(run.architecture.num_layers); }

ScheduleKind TopoOptions::schedule_kind() const { return run.parallel.schedule_kind(run.architecture.num_layers); }

Layout TopoOptions::stages() const { return resolve_stages(run.parallel, run.architecture.num_layers); }

Layout TopoOptions::layout() const { return resolve_layout(run.parallel, run.architecture.num_layers, 0); }

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
  const ParallelOptions& parallel = run.parallel;
  if (parallel.context > 1) return "mtl-train does not support context parallelism yet";
  if (parallel.expert > 1) return "mtl-train does not support experts yet";
  if (chunks() > 1 || schedule_kind() == ScheduleKind::interleaved)
    return "mtl-train does not support interleaved schedules yet";
  // With --rank-order, an order is supported if it numbers the ranks as one of mtl-train's two orders does.
  const RankGrid drawn = rank_grid(parallel);
  for (bool tp_pp_dp_mapping : {false, true}) {
    ParallelOptions trained = parallel;
    trained.rank_order.reset();
    trained.tp_pp_dp_mapping = tp_pp_dp_mapping;
    if (rank_grid(trained).groups(Axis::pipeline) == drawn.groups(Axis::pipeline) &&
        rank_grid(trained).groups(Axis::tensor) == drawn.groups(Axis::tensor))
      return "";
  }
  return "mtl-train does not support this rank order, only tp-cp-ep-dp-pp and tp-cp-ep-pp-dp";
}

TrainOptions TopoOptions::train_options() const {
  TrainOptions out = run;
  if (!out.batch.global_batch_size)
    out.batch.global_batch_size = out.batch.micro_batch_size * out.parallel.data() * micro_batches.value_or(1);
  out.threads = cores_per_rank;
  out.dry_run = true;
  return out;
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

/// Declares other mtl-train flags that scripts pass along with a layout.
static void acknowledge_train_flags(Flags& flags) {
  flags.foreign.acknowledge(1, "has no effect on a plan", "--distributed-timeout-minutes");
  const char* gpus = "has no effect on a plan for CPUs; mtl-train --dry-run --device cuda plans for GPUs";
  flags.foreign.acknowledge(0, gpus, "--optimizer-cpu-offload --cpu-offloading");
  flags.foreign.acknowledge(1, gpus, "--cpu-offloading-num-layers");
}

void add_topo_flags(Flags& flags, TopoOptions& options) {
  flags.section("Ranks");
  flags.add("--world-size", &options.run.parallel.world, "N", "number of ranks").required().within({1, kLargestWorld});
  add_grid_flags(flags, options.run.parallel);
  flags.add("--rank-order", &options.run.parallel.rank_order, "ORDER",
            "axis order, fastest first (default: tp-cp-ep-dp-pp)");
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
  add_stage_flags(flags, options.run.parallel);
  add_sharing_flags(flags, options.run.parallel);
  add_recompute_flags(flags, options.run.parallel);
  acknowledge_train_flags(flags);
  flags.add_switch("--reset-attention-mask", options.run.data.reset_attention_mask,
                   "let no token attend to documents before its own");

  flags.section("Precision");
  add_precision_flags(flags, options.run.precision);

  flags.section("Schedule");
  add_schedule_flag(flags, options.run.parallel, "--schedule,--pipeline-schedule", true);
  flags.add("--micro-batches", &options.micro_batches, "N", "micro-batches per step and replica")
      .within({1, kMostMicroBatches});
  add_batch_size_flags(flags, options.run.batch);
  add_interleaving_flags(flags, options.run.parallel);

  flags.section("Output");
  flags.add("--format", &options.format, "NAME", "output format (default: by the extension of FILE, else text)")
      .one_of({"text", "svg", "json", "rankfile"});
  flags.add("--output,-o", &options.output, "FILE", "file to write; .txt, .svg, .json or .rankfile chooses the format");
}

}  // namespace mtl
