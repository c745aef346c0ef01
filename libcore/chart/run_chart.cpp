#include "chart/run_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/count_of.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr const char* kValidationLoss = "loss";  // the column beside lm_loss

const std::vector<std::string>& default_columns() {
  static const std::vector<std::string> columns = {"lm_loss", "learning_rate"};
  return columns;
}

/// Returns a column's axis label.
std::string label_of(const std::string& column) {
  if (column == "lm_loss") return "loss";
  if (column == "ppl") return "perplexity";
  std::string label = column;
  std::ranges::replace(label, '_', ' ');
  return label;
}

/// True for a run's settings, which have no noise to smooth.
bool is_setting(const std::string& column) {
  return column == "learning_rate" || column == "global_batch_size" || column == "loss_scale";
}

/// Returns the training time in seconds up to each row. Each row adds its time per iteration, times the iterations
/// since the previous row.
std::vector<double> training_time(const Table& steps) {
  const auto& iterations = steps.column("iteration");
  const auto& elapsed = steps.column("elapsed_ms_per_iteration");
  std::vector<double> out;
  double total = 0, before = 0;
  for (std::size_t i = 0; i < elapsed.size(); ++i) {
    double added = (iterations[i] - before) * elapsed[i] / 1000;
    if (std::isfinite(added)) total += std::max(added, 0.0);
    before = iterations[i];
    out.push_back(total);
  }
  return out;
}

/// Returns each validation's training time, which is that of the last step at or before it.
std::vector<double> validation_time(const RunLog& log) {
  std::vector<double> times = training_time(log.steps), out;
  const auto& iterations = log.steps.column("iteration");
  for (double at : log.validations.column("iteration")) {
    double time = 0;
    for (std::size_t i = 0; i < times.size() && iterations[i] <= at; ++i) time = times[i];
    out.push_back(time);
  }
  return out;
}

std::vector<double> x_values(const RunLog& log, const Table& table, const RunChartOptions& options) {
  if (options.x == "iteration") return table.column("iteration");
  if (options.x == "time") return &table == &log.steps ? training_time(table) : validation_time(log);
  std::vector<double> samples = table.column("consumed_samples");
  if (options.x == "samples") return samples;
  double length = log.sequence_length > 0 ? log.sequence_length : options.sequence_length;
  if (!(length > 0)) {
    fail(Exit::usage, log.path, " does not record the sequence length, which --x tokens needs; add --seq-length N");
  }
  for (double& value : samples) value *= length;
  return samples;
}

bool has_point(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
}

/// Returns one run's series in one panel. Its color is its number among the `runs`; of several validation sets, each
/// but the first has one more.
std::vector<Series> run_series(const RunLog& log, std::size_t color, std::size_t runs, const std::string& column,
                               const RunChartOptions& options) {
  std::vector<Series> out;
  std::vector<double> x = x_values(log, log.steps, options), y = log.steps.column(column);
  if (has_point(y) && has_point(x)) {
    Series line{.name = log.name, .x = x, .y = y, .color = color};
    if (options.smooth > 1 && !is_setting(column)) {
      line.is_faint = true;
      out.push_back(line);
      line.is_faint = false;
      line.y = trailing_mean(y, options.smooth);
    }
    out.push_back(std::move(line));
  }
  x = x_values(log, log.validations, options);
  const std::string held_out = column == "lm_loss" ? kValidationLoss : column;
  for (const std::string& name : log.validations.names()) {
    if (name != held_out && !starts_with(name, held_out + "-")) continue;
    y = log.validations.column(name);
    if (!has_point(y) || !has_point(x)) continue;
    const std::string set = name.substr(held_out.size());  // "" or "-web"
    out.push_back({.name = "validation" + set, .x = x, .y = y, .color = color, .is_markers = true});
    color += runs;
  }
  return out;
}

std::string known_columns(const std::vector<RunLog>& logs) {
  std::set<std::string> names;
  for (const RunLog& log : logs) {
    for (const std::string& name : log.steps.names()) names.insert(name);
  }
  return join({names.begin(), names.end()}, ", ");
}

void check_points(const std::vector<RunLog>& logs, const RunChartOptions& options) {
  for (const RunLog& log : logs) {
    if (log.steps.rows() + log.validations.rows() == 0) {
      fail(Exit::bad_data, log.path,
           " has no point to draw; use a file that mtl-train --log-jsonl wrote, or a log with Megatron-LM's lines");
    }
    if (!has_point(x_values(log, log.steps, options)) && !has_point(x_values(log, log.validations, options))) {
      fail(Exit::bad_data, log.path, " has no values for --x ", options.x, "; its metrics are ", known_columns({log}));
    }
  }
}

/// Warns about points outside the range the chart's axes can show.
void warn_of_undrawable(Chart& chart) {
  for (const Panel& panel : chart.panels) {
    std::size_t not_positive = 0, too_large = 0, others = 0;
    for (const Series& series : panel.series) {
      for (std::size_t i = 0; i < series.x.size() && !series.is_faint; ++i) {
        const double x = series.x[i], y = series.y[i];
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        if (is_drawable(x, chart.log_x) && is_drawable(y, panel.log_y)) continue;
        if ((chart.log_x && x <= 0) || (panel.log_y && y <= 0))
          ++not_positive;
        else if (!is_drawable(x, false) || !is_drawable(y, false))
          ++too_large;
        else
          ++others;
      }
    }
    auto warn = [&](std::size_t count, const char* why) {
      if (count > 0)
        chart.warnings.push_back(
            cat(panel.y_label, ": ", count_of(count, "point"), count == 1 ? " is" : " are", " not drawn: ", why));
    };
    warn(not_positive, "a logarithmic axis shows only values above 0");
    warn(too_large, "an axis shows only values from -1e300 to 1e300");
    warn(others, "a logarithmic axis shows only values of at least 1e-300");
  }
}

/// Throws Error(bad_data), explaining why no run has a point in this column.
[[noreturn]] void fail_no_metric(const std::vector<RunLog>& logs, const std::string& column) {
  const bool is_known = std::ranges::any_of(logs, [&](const RunLog& log) { return !log.steps.column(column).empty(); });
  if (is_known) {
    fail(Exit::bad_data, join(logs, ", ", &RunLog::path), logs.size() == 1 ? " has" : " have", " no finite value of ",
         column, ", so the training may have diverged; choose another metric with --y: ", known_columns(logs));
  }
  fail(Exit::bad_data, "no run has a metric named ", column, "; choose from these with --y: ", known_columns(logs));
}

}  // namespace

std::set<std::string> columns_of(const RunChartOptions& options) {
  std::set<std::string> out = {"iteration"};
  if (options.x == "time") out.insert("elapsed_ms_per_iteration");
  if (options.x == "samples" || options.x == "tokens") out.insert("consumed_samples");
  for (const std::string& column : options.y.empty() ? default_columns() : options.y) {
    out.insert(column);
    if (column == "lm_loss") out.insert(kValidationLoss);
  }
  return out;
}

Chart make_run_chart(const std::vector<RunLog>& logs, const RunChartOptions& options) {
  check_points(logs, options);
  Chart chart{.title = options.title,
              .x_label = options.x == "time" ? "training time (s)" : options.x,
              .log_x = options.log_x,
              .panels = {}};
  for (const std::string& column : options.y.empty() ? default_columns() : options.y) {
    Panel panel{.y_label = label_of(column), .log_y = options.log_y && chart.panels.empty(), .series = {}};
    std::vector<Series> faint, lines, markers;
    for (std::size_t run = 0; run < logs.size(); ++run) {
      for (Series& series : run_series(logs[run], run, logs.size(), column, options)) {
        (series.is_faint ? faint : series.is_markers ? markers : lines).push_back(std::move(series));
      }
    }
    for (auto* layer : {&faint, &lines, &markers}) {
      std::ranges::move(*layer, std::back_inserter(panel.series));
    }
    bool is_optional = options.y.empty() && column != "lm_loss";
    if (!panel.series.empty())
      chart.panels.push_back(std::move(panel));
    else if (!is_optional)
      fail_no_metric(logs, column);
  }
  warn_of_undrawable(chart);
  return chart;
}

std::string chart_json(const Chart& chart, const std::vector<RunLog>& runs, const RunChartOptions& options) {
  auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  Json panels = Json::array();
  for (const Panel& panel : chart.panels) {
    Json list = Json::array();
    for (const Series& series : panel.series) {
      Json x = Json::array(), y = Json::array();
      for (double value : series.x) x.push(number(value));
      for (double value : series.y) y.push(number(value));
      std::string name = printable_text(runs.at(series.color % runs.size()).name);
      const char* kind = series.is_faint ? "unsmoothed" : series.is_markers ? "validation" : "training";
      Json entry = Json::object({{"run", name}, {"kind", kind}});
      const std::size_t dash = series.name.find('-');
      if (series.is_markers && dash != std::string::npos)
        entry.set("set", printable_text(series.name.substr(dash + 1)));
      list.push(entry.set("x", x).set("y", y));
    }
    panels.push(Json::object({{"y", printable_text(panel.y_label)}, {"series", list}}));
  }
  return Json::object({{"format", "mtl-plot"},
                       {"version", 1},
                       {"title", printable_text(chart.title)},
                       {"x", options.x},
                       {"panels", panels}})
             .dump() +
         "\n";
}

}  // namespace mtl
