// mtl-plot: draws the losses of training runs from their logs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "base/heartbeat.h"
#include "base/inputs.h"
#include "chart/run_chart.h"
#include "chart/svg.h"
#include "chart/terminal.h"
#include "cli/run_main.h"

namespace {

using namespace mtl;

struct PlotOptions {
  std::vector<std::string> logs;
  std::optional<std::string> output;
  bool terminal = false, json = false, follow = false;
  std::string y, names;
  RunChartOptions chart;
};

void add_flags(Flags& flags, PlotOptions& options) {
  flags.positional(
      "LOG", options.logs,
      "files written by mtl-train --log-jsonl, or printed logs of mtl-train or Megatron-LM; - is standard input",
      "at least one log file, or - for standard input");
  flags.section("Output");
  flags.add("--output,-o", &options.output, "FILE",
            "write FILE.svg, FILE.json or FILE.txt; - is standard output, as SVG");
  flags.add_switch("--terminal", options.terminal, "draw with characters on standard output");
  flags.add_switch("--json", options.json, "print the metrics as JSON");
  flags.add_switch("--follow,-f", options.follow, "draw again whenever a log grows, until Ctrl-C ends the program");
  flags.section("Chart");
  flags.add("--x", &options.chart.x, "NAME", "horizontal axis", one_of({"iteration", "samples", "tokens", "time"}));
  flags.add("--y", &options.y, "LIST",
            "metrics to draw, separated by commas, one panel each (default: lm_loss,learning_rate)");
  flags.add("--smooth", &options.chart.smooth, "N", "draw the mean of each point and the N-1 points before it",
            within({1, INT32_MAX}));
  flags.add_switch("--log-x", options.chart.log_x, "use a logarithmic horizontal axis");
  flags.add_switch("--log-y", options.chart.log_y, "use a logarithmic vertical axis in the first panel");
  flags.add("--title", &options.chart.title, "TEXT", "title above the chart");
  flags.add("--names", &options.names, "LIST",
            "names of the runs, separated by commas (default: the file names, numbered for a log with several runs)");
  flags.add("--seq-length", &options.chart.sequence_length, "N",
            "tokens per sample, for --x tokens with a log that lacks it", within({1, INT32_MAX}),
            only_with("--x tokens", [&options] { return options.chart.x == "tokens"; }));
}

/// Returns the output kind: "svg", "json", "txt" or "terminal".
std::string output_kind(const PlotOptions& options) {
  if (options.json) return "json";
  if (options.terminal) return "terminal";
  if (options.output) return *options.output == "-" ? "svg" : fs::path(*options.output).extension().string().substr(1);
  return is_terminal(STDOUT_FILENO) ? "terminal" : "svg";
}

void check_flags(Flags& flags, const PlotOptions& options) {
  if (int(options.terminal) + int(options.json) + int(options.output.has_value()) > 1) {
    flags.problem("--output, --terminal, --json", "exclude each other; use only one of them");
  }
  const std::string kind = output_kind(options);
  if (options.follow && std::ranges::count(options.logs, "-") > 0)
    flags.problem("--follow", "reads logs again, which standard input does not allow; name the files");
  if (options.follow && (options.json || (kind == "svg" && !names_file(options.output))))
    flags.problem("--follow", "draws on a terminal (--terminal) or into a file; add --output FILE");
  const std::vector<std::string> metrics = split(options.y, ',');
  if (!options.y.empty() && std::find(metrics.begin(), metrics.end(), "") != metrics.end())
    flags.problem(cat("--y ", options.y),
                  "contains an empty name; separate names by commas, such as lm_loss,grad_norm");
  std::string ending = options.output ? fs::path(*options.output).extension().string() : ".svg";
  if (ending != ".svg" && ending != ".json" && ending != ".txt" && options.output != "-") {
    flags.problem(cat("--output ", *options.output),
                  "must end in .svg, .json or .txt; rsvg-convert makes PNG and PDF from SVG");
  }
}

/// Reads the logs, and returns the chart in the form of output_kind().
std::string draw(const PlotOptions& options, Console& console) {
  const Heartbeat reading = reading_heartbeat(console, options.logs, "reading the logs");
  std::vector<RunLog> logs = read_run_logs(options.logs, columns_of(options.chart), console);
  if (!options.names.empty()) name_runs(logs, options.names);
  Chart chart = make_run_chart(logs, options.chart);
  for (const std::string& warning : chart.warnings) console.warn(warning);
  const std::string kind = output_kind(options);
  if (kind == "json") return chart_json(chart, logs, options.chart);
  if (kind == "svg") return svg_chart(chart);
  return terminal_chart(chart, kind == "txt" ? TerminalOptions{.unicode = true} : detect_terminal(STDOUT_FILENO));
}

/// Returns the sizes and dates of the logs, which change when a run writes.
std::string states_of(const std::vector<std::string>& logs) {
  std::string out;
  std::error_code ignored;  // a log that does not exist yet
  for (const std::string& path : logs)
    out += cat(fs::file_size(path, ignored), " ", fs::last_write_time(path, ignored).time_since_epoch().count(), "\n");
  return out;
}

/// Draws whenever a log changes, until a signal ends the process. Waits for logs that cannot be drawn yet.
[[noreturn]] void follow(const PlotOptions& options, Console& console) {
  constexpr std::chrono::milliseconds kBetweenLooks{500};
  constexpr const char* kClear = "\033[H\033[2J";
  const bool clears = !options.output && is_terminal(STDOUT_FILENO);
  Console silent(console.program(), true);  // warnings, as of an incomplete last line, would come again and again
  std::string drawn, waited;
  for (;; std::this_thread::sleep_for(kBetweenLooks)) {
    const std::string states = states_of(options.logs);
    if (states == std::exchange(drawn, states)) continue;
    std::string drawing;
    try {
      drawing = draw(options, silent);
    } catch (const Error& error) {
      if (error.code() == Exit::usage) throw;
      if (waited != error.what()) console.info(cat("waiting for a log that can be drawn: ", waited = error.what()));
      continue;
    }
    write_output(options.output, (clears ? kClear : "") + drawing, console.program());
  }
}

void plot(PlotOptions& options, const std::string& config_file, Console& console) {
  if (names_file(options.output)) {
    std::vector<std::string> inputs = options.logs;
    inputs.push_back(config_file);
    check_output(inputs, *options.output);
  }
  if (!options.y.empty()) options.chart.y = split(options.y, ',');
  if (options.follow) follow(options, console);
  write_output(options.output, draw(options, console), console.program());
}

}  // namespace

int main(int argc, char** argv) {
  PlotOptions options;
  Flags flags("mtl-plot", "draw the losses of training runs, as SVG or in the terminal");
  add_flags(flags, options);
  flags.check([&] { check_flags(flags, options); });
  return run_main(flags, argc, argv, [&](Console& console) { plot(options, flags.config_file(), console); });
}
