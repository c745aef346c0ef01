// mtl-topo: plans a rank layout: placement, memory, communication, schedule.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/console.h"
#include "base/files.h"
#include "base/inputs.h"
#include "cli/flags/data_flags.h"
#include "cli/flags/layout_flags.h"
#include "cli/flags/precision_flags.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/run_main.h"
#include "cli/topo/commands.h"
#include "topo/options.h"
#include "topo/output.h"
#include "topo/report.h"

namespace {

using namespace mtl;

struct TopoCommand {
  TopoOptions options;
  std::optional<std::string> format, output;

  /// Returns text, svg, json or rankfile, or "" if the extension of the file name is unknown.
  std::string output_format() const {
    if (format) return *format;
    if (!names_file(output)) return "text";
    const std::string ending = fs::path(*output).extension().string();
    if (ending == ".txt") return "text";
    const bool is_known = ending == ".svg" || ending == ".json" || ending == ".rankfile";
    return is_known ? ending.substr(1) : "";
  }
};

/// Declares other mtl-train flags that scripts pass along with a layout.
void acknowledge_train_flags(Flags& flags) {
  flags.foreign.acknowledge(1, "has no effect on a plan", "--distributed-timeout-minutes");
  const char* gpus = "has no effect on a plan for CPUs; mtl-train --dry-run --device cuda plans for GPUs";
  flags.foreign.acknowledge(0, gpus, "--optimizer-cpu-offload --cpu-offloading");
  flags.foreign.acknowledge(1, gpus, "--cpu-offloading-num-layers");
}

/// Declares all flags, and their checks.
void add_topo_flags(Flags& flags, TopoCommand& command) {
  TopoOptions& options = command.options;
  flags.section("Ranks");
  add_world_size_flag(flags, options.run.parallel, "number of ranks", required);
  add_grid_flags(flags, options.run.parallel);
  flags.add("--rank-order", &options.run.parallel.rank_order, "ORDER",
            "axis order, fastest first (default: tp-cp-ep-dp-pp)");
  add_node_size_flag(flags, options.run.parallel, "ranks per node (default: 8)");
  flags.add("--hosts", &options.hosts, "LIST", "node names, separated by commas");
  add_threads_flag(flags, options.run.threads, "--cores-per-rank,--threads",
                   "cores of each rank in a rankfile, and its threads", {1, kMostCores});

  flags.section("Model");
  add_architecture_flags(flags, options.run, [] { return false; });
  add_vocab_size_flag(flags, options.run.tokenizer.vocab_size, "tokens in the vocabulary, before padding");
  add_length_flag(flags, options.run.data);
  add_stage_flags(flags, options.run.parallel);
  add_sharing_flags(flags, options.run.parallel);
  add_recompute_flags(flags, options.run.parallel);
  add_file_offload_flag(flags, options.run.parallel);
  acknowledge_train_flags(flags);
  add_mask_flag(flags, options.run.data);

  flags.section("Precision");
  add_precision_flags(flags, options.run.precision);

  flags.section("Schedule");
  add_schedule_flag(flags, options.run.parallel, "--schedule,--pipeline-schedule");
  flags.add("--micro-batches", &options.micro_batches, "N", "micro-batches per step and replica",
            within({1, kMostMicroBatches}));
  add_batch_size_flags(flags, options.run.batch);
  add_interleaving_flags(flags, options.run.parallel);

  flags.section("Output");
  flags.add("--format", &command.format, "NAME", "output format (default: by the extension of FILE, else text)",
            one_of({"text", "svg", "json", "rankfile"}));
  flags.add("--output,-o", &command.output, "FILE", "file to write; .txt, .svg, .json or .rankfile chooses the format");

  flags.check([&flags, &command] {
    command.options.run.parallel.world = command.options.run.parallel.plan_world.value_or(0);
    if (command.output_format().empty())
      flags.problem(cat("--output ", *command.output),
                    "does not end in .txt, .svg, .json or .rankfile; add --format text, svg, json or rankfile");
    check_topo(command.options, std::bind_front(&Flags::problem, &flags));
  });
}

/// Returns what locale and terminal can do, with at least 60 columns, or 100 if stdout is not a terminal and COLUMNS is
/// unset. Output to a file has no colors, box drawings in every locale, and 100 columns unless COLUMNS is set.
TerminalOptions text_options(bool to_file) {
  TerminalOptions text = detect_terminal(STDOUT_FILENO);
  if (std::getenv("COLUMNS") == nullptr && (to_file || !is_terminal(STDOUT_FILENO))) text.width = 100;
  if (to_file) {
    text.unicode = true;
    text.color = false;
  }
  text.width = std::max(text.width, 60);
  return text;
}

void write_layout(const TopoCommand& command, const Flags& flags) {
  const bool to_file = names_file(command.output);
  if (to_file) check_output({flags.config_file()}, *command.output);
  TopoReport report(command.options);
  std::string format = command.output_format();
  std::string out = format == "svg"        ? topo_svg(report)
                    : format == "json"     ? topo_json(report).dump() + "\n"
                    : format == "rankfile" ? topo_rankfile(report)
                                           : topo_text(report, text_options(to_file));
  write_output(command.output, out, flags.program());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "plan") return run_plan_command(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "time") return run_time_command(argc - 1, argv + 1);
  TopoCommand command;
  Flags flags("mtl-topo", "draw a layout of ranks: placement, memory, communication, schedule");
  flags.command("plan", "find the fastest layout (mtl-topo plan --help)");
  flags.command("time", "tell how long a step of a layout takes (mtl-topo time --help)");
  add_topo_flags(flags, command);
  return run_main(flags, argc, argv, [&](Console&) { write_layout(command, flags); });
}
