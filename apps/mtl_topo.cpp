// mtl-topo: plans a rank layout: placement, memory, communication, schedule.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/console.h"
#include "base/inputs.h"
#include "cli/run_main.h"
#include "cli/topo/plan_command.h"
#include "cli/topo/time_command.h"
#include "cli/topo/topo_flags.h"
#include "topo/files.h"
#include "topo/report.h"
#include "topo/svg.h"
#include "topo/text.h"

namespace {

using namespace mtl;

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
