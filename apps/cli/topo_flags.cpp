#include "cli/topo_flags.h"

#include <filesystem>

#include "cli/layout_flags.h"
#include "cli/precision_flags.h"

namespace mtl {

std::string TopoCommand::output_format() const {
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

/// Declares other mtl-train flags that scripts pass along with a layout.
void acknowledge_train_flags(Flags& flags) {
  flags.foreign.acknowledge(1, "has no effect on a plan", "--distributed-timeout-minutes");
  const char* gpus = "has no effect on a plan for CPUs; mtl-train --dry-run --device cuda plans for GPUs";
  flags.foreign.acknowledge(0, gpus, "--optimizer-cpu-offload --cpu-offloading");
  flags.foreign.acknowledge(1, gpus, "--cpu-offloading-num-layers");
}

}  // namespace

void add_topo_flags(Flags& flags, TopoCommand& command) {
  TopoOptions& options = command.options;
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
  flags.add("--format", &command.format, "NAME", "output format (default: by the extension of FILE, else text)")
      .one_of({"text", "svg", "json", "rankfile"});
  flags.add("--output,-o", &command.output, "FILE", "file to write; .txt, .svg, .json or .rankfile chooses the format");

  flags.check([&flags, &command] {
    if (command.output_format().empty())
      flags.problem(cat("--output ", *command.output), "does not end in .txt, .svg, .json or .rankfile; add --format");
    check_topo(command.options, [&](const std::string& flag, const std::string& what) { flags.problem(flag, what); });
  });
}

}  // namespace mtl
