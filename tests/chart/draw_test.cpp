// Charts as SVG and on a terminal: ordinary runs, and runs with gaps, extreme values or many names. Also covers run
// logs.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "chart/run_chart.h"
#include "chart/svg.h"
#include "chart/svg_canvas.h"
#include "chart/terminal.h"

using namespace mtl;

namespace {

std::string step(int iteration, const std::string& loss) {
  return cat(R"({"type":"step","iteration":)", iteration, R"(,"consumed_samples":)", iteration * 8, R"(,"lm_loss":)",
             loss, R"(,"learning_rate":0.001})", "\n");
}

RunLog run_of(const std::vector<std::string>& losses, const std::string& name = "run") {
  std::string text;
  for (std::size_t i = 0; i < losses.size(); ++i) text += step(static_cast<int>(i) + 1, losses[i]);
  return parse_run_logs(text, name).front();
}

std::size_t count(const std::string& text, std::string_view word) {
  std::size_t times = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++times;
  return times;
}

/// Returns a line's width on a terminal. Color codes take no columns, and each character takes one.
std::size_t columns(const std::string& line) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033')
      i = line.find('m', i);
    else if ((line[i] & 0xc0) != 0x80)
      ++width;
  }
  return width;
}

/// Returns charts that show single points, gaps, constants, extreme values and many long names.
std::vector<Chart> unusual_charts() {
  std::vector<std::vector<RunLog>> runs = {
      {run_of({"3.5"})},                                    // a single point
      {run_of({"5", "NaN", "4", "3", "NaN", "NaN", "2"})},  // gaps, and an isolated point
      {run_of({"2", "2", "2"})},                            // a constant
      {run_of({"Infinity", "1e300", "1"})},
      {},
  };
  for (int i = 0; i < 23; ++i)
    runs.back().push_back(run_of({"3", "2"}, cat("a-run-with-a-very-long-name-", i, "-until-its-end")));
  std::vector<Chart> charts;
  for (const auto& logs : runs) {
    for (bool is_log : {false, true}) {
      RunChartOptions options;
      options.log_x = options.log_y = is_log;
      options.title = "a & b";
      charts.push_back(make_run_chart(logs, options));
    }
  }
  return charts;
}

}  // namespace

TEST_CASE("svg: unusual runs have finite coordinates and balanced markup") {
  for (const Chart& chart : unusual_charts()) {
    std::string svg = svg_chart(chart);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(count(svg, "<text") == count(svg, "</text>"));
    CHECK(svg.find("a &amp; b") != std::string::npos);
  }
}

TEST_CASE("svg: a gap breaks the line, an isolated point is drawn") {
  std::string svg = svg_chart(make_run_chart({run_of({"5", "4", "NaN", "3", "NaN", "2", "1"})}, {}));
  std::size_t path = svg.find("<path class=\"l\"");
  REQUIRE(path != std::string::npos);
  std::string data = svg.substr(svg.find(" d=\"", path) + 4);
  data.resize(data.find('"'));
  CHECK(count(data, "M") == 2);
  CHECK(count(data, "L") == 2);
  CHECK(count(svg, "<circle") == 1);
}

TEST_CASE("svg: escapes text") { CHECK(escape_xml("<a href='&\"'>\x01") == "&lt;a href=&#39;&amp;&quot;&#39;&gt;"); }

TEST_CASE("legend: the validation series of many runs share one entry") {
  std::vector<RunLog> logs;
  for (const char* name : {"a", "b"}) {
    logs.push_back(
        parse_run_logs(step(1, "3") + step(2, "2.5") + R"({"type":"validation","iteration":2,"loss":2.7})" + "\n", name)
            .front());
  }
  Chart chart = make_run_chart(logs, {});
  std::vector<LegendEntry> entries = legend_entries(chart);
  REQUIRE(entries.size() == 3);
  CHECK_FALSE(entries[0].is_shared);
  CHECK(entries[2].series->name == "validation");
  CHECK(entries[2].is_shared);
}

TEST_CASE("run chart: validation sets are series of their own, with the same points from both kinds of logs") {
  const std::string lines = step(1, "3") + R"({"type":"validation","iteration":1,"loss":2.7,"ppl":14,"set":"0"})" +
                            "\n" + R"({"type":"validation","iteration":1,"loss":3.5,"ppl":33,"set":"my-web"})" + "\n" +
                            step(2, "2.5") + R"({"type":"validation","iteration":2,"loss":2.25,"ppl":9,"set":"0"})" +
                            "\n" + R"({"type":"validation","iteration":2,"loss":3.25,"ppl":25,"set":"my-web"})" + "\n";
  const std::string text =
      " iteration 1/ 2 | consumed samples: 1 | lm loss: 3 |\n"
      " validation-0 loss at iteration 1 | lm loss value: 2.7 | lm loss PPL: 14 | validation samples 1 to 3 | \n"
      " validation-my-web loss at iteration 1 | lm loss value: 3.5 | lm loss PPL: 33 | validation samples 1 to 3 | \n"
      " iteration 2/ 2 | consumed samples: 2 | lm loss: 2.5 |\n"
      " validation-0 loss at iteration 2 | lm loss value: 2.25 | lm loss PPL: 9 | validation samples 1 to 3 | \n"
      " validation-my-web loss at iteration 2 on validation set | lm loss value: 3.25 | lm loss PPL: 25 | \n";
  for (const std::string& log : {lines, text}) {
    const std::vector<RunLog> runs = {parse_run_logs(log, "a", columns_of({})).front(),
                                      parse_run_logs(step(1, "3"), "b").front()};
    CHECK(runs[0].replaced == 0);
    const Chart chart = make_run_chart(runs, {});
    const std::vector<Series>& series = chart.panels[0].series;
    REQUIRE(series.size() == 4);
    CHECK(series[2].name == "validation-0");
    CHECK(series[2].y == std::vector<double>{2.7, 2.25});
    CHECK(series[3].name == "validation-my-web");
    CHECK(series[3].y == std::vector<double>{3.5, 3.25});
    CHECK(series[3].x == std::vector<double>{1, 2});
    CHECK(series[2].color == series[0].color);
    CHECK(series[3].color > series[1].color);  // no run's
    CHECK(chart_json(chart, runs, {}).find(R"({"run": "a", "kind": "validation", "set": "my-web", "x": [1.0, 2.0])") !=
          std::string::npos);
  }
}

TEST_CASE("terminal: no line exceeds the requested width, with or without Unicode and color") {
  for (const Chart& chart : unusual_charts()) {
    for (int width : {40, 80, 133}) {
      for (bool unicode : {false, true}) {
        std::string drawing =
            terminal_chart(chart, {.width = width, .height = 24, .unicode = unicode, .color = unicode});
        for (const std::string& line : split(drawing, '\n')) {
          CAPTURE(line);
          CHECK(columns(line) <= static_cast<std::size_t>(width));
          if (!unicode) CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
        }
      }
    }
  }
}

TEST_CASE("terminal: a falling series runs from the top left to the bottom right") {
  const Panel panel{.y_label = "y", .log_y = false, .series = {{.name = "a", .x = {0, 1}, .y = {1, 0}}}};
  const Chart chart{.title = "", .x_label = "x", .log_x = false, .panels = {panel}};
  std::vector<std::string> lines =
      split(terminal_chart(chart, {.width = 40, .height = 24, .unicode = false, .color = false}), '\n');
  std::vector<std::size_t> stars;
  for (const std::string& line : lines) {
    if (line.find('*') != std::string::npos) stars.push_back(line.find('*'));
  }
  CHECK(stars.size() > 5);
  CHECK(std::is_sorted(stars.begin(), stars.end()));
}

TEST_CASE("run log: the fields of a text log become columns, other lines are ignored") {
  RunLog log = parse_run_logs(
                   "setting up\n [ts] iteration        7/      10 | consumed samples:           56 | lm loss: "
                   "1.250000E+00 | MFU A: "
                   "12.5% | lost updates of the copy: 25.0% | odd: x |\n"
                   " validation loss at iteration 7 | lm loss value: 2.0E+00 | lm loss PPL: 7.4E+00 | \n"
                   "| consumed samples: 3 | iterations\n"
                   " iteration        8/      10 | consumed samples:           64 | lm lo",
                   "dir/slurm-1.out")
                   .front();
  CHECK(log.name == "slurm-1");
  REQUIRE(log.steps.rows() == 1);
  CHECK(log.steps.column("iteration")[0] == 7);
  CHECK(log.steps.column("consumed_samples")[0] == 56);
  CHECK(log.steps.column("lm_loss")[0] == 1.25);
  CHECK(log.steps.column("mfu_a")[0] == 0.125);
  CHECK(log.steps.column("lost_updates_copy")[0] == 0.25);
  CHECK(log.steps.column("odd").empty());
  REQUIRE(log.validations.rows() == 1);
  CHECK(log.validations.column("loss")[0] == 2);
  CHECK(log.validations.column("consumed_samples")[0] == 56);
  REQUIRE(log.warnings.size() == 1);
  CHECK(log.warnings[0].find("dir/slurm-1.out:5: ") == 0);
}

TEST_CASE("run log: a broken line is an error in the middle and a warning at the end") {
  CHECK_THROWS_WITH_AS(parse_run_logs("{\"iteration\":1}\n{oops\n", "f"), doctest::Contains("f:2: "), Error);
  CHECK_THROWS_WITH_AS(parse_run_logs("{\"iteration\":1}\n{\"type\":\"start\",\"run\":7}", "f"),
                       doctest::Contains("f:2: run"), Error);
  CHECK_THROWS_WITH_AS(parse_run_logs("\xEF\xBB\xBF{\"iteration\":1}\n", "-"),
                       doctest::Contains("standard input: this is text with a byte order mark"), Error);
  RunLog log = parse_run_logs("{\"iteration\":1,\"lm_loss\":2}\n{\"iterat", "f").front();
  CHECK(log.steps.rows() == 1);
  CHECK(log.warnings.size() == 1);
}

TEST_CASE("run log: of columns that are not drawn, only the names are kept") {
  const std::string text =
      "{\"iteration\":1,\"lm_loss\":4,\"mfu\":0.3}\n{\"iteration\":2,\"lm_loss\":3,\"mfu\":0.4}\n"
      "{\"type\":\"validation\",\"iteration\":2,\"loss\":9,\"ppl\":8}\n{\"iteration\":2,\"mfu\":0.5}\n";
  const RunLog log = parse_run_logs(text, "f", columns_of({})).front();
  CHECK(log.steps.column("lm_loss") == std::vector<double>{4, 3});
  CHECK(log.steps.column("mfu").empty());
  CHECK(log.steps.names() == std::vector<std::string>{"iteration", "lm_loss", "mfu"});
  CHECK(log.validations.column("loss") == std::vector<double>{9});
  CHECK(log.validations.column("ppl").empty());
  CHECK(columns_of({.title = "", .x = "time", .y = {"mfu"}}) ==
        std::set<std::string>{"elapsed_ms_per_iteration", "iteration", "mfu"});
}

TEST_CASE("run log: a resumed run replaces the steps it repeats; lines of one iteration are merged") {
  RunLog log = parse_run_logs(
                   "{\"iteration\":1,\"lm_loss\":4}\n{\"iteration\":2,\"lm_loss\":3}\n"
                   "{\"type\":\"validation\",\"iteration\":2,\"loss\":9}\n{\"iteration\":3,\"lm_loss\":2}\n"
                   "{\"iteration\":3,\"grad_norm\":5}\n{\"iteration\":1.5,\"lm_loss\":7}\n",
                   "f")
                   .front();
  CHECK(log.steps.column("iteration") == std::vector<double>{1, 1.5});
  CHECK(log.steps.column("lm_loss") == std::vector<double>{4, 7});
  CHECK(log.steps.column("grad_norm").size() == 2);
  CHECK(log.validations.rows() == 0);
  CHECK(log.replaced == 2);
  REQUIRE(log.warnings.size() == 1);
  log = parse_run_logs("{\"iteration\":3,\"lm_loss\":2}\n{\"iteration\":3,\"grad_norm\":5}\n", "f").front();
  CHECK(log.steps.rows() == 1);
  CHECK(log.steps.column("lm_loss") == std::vector<double>{2});
  CHECK(log.steps.column("grad_norm") == std::vector<double>{5});
  CHECK(log.warnings.empty());
}

TEST_CASE("run log: runs that share a file stay apart") {
  auto start = [](const std::string& run, int iteration, const std::string& more = "") {
    return cat(R"({"type":"start","iteration":)", iteration, run.empty() ? "" : cat(R"(,"run":")", run, '"'), more,
               "}\n");
  };
  const std::string validation = R"({"type":"validation","iteration":2,"loss":9})"
                                 "\n";
  std::vector<RunLog> runs =
      parse_run_logs(cat(start("a", 0, R"(,"seq_length":8)"), step(1, "5"), step(2, "4"),
                         start("b", 0, R"(,"seq_length":16)"), step(1, "7"), start("a", 0), validation, step(3, "3"),
                         start("none", 0), start("b", 1), step(2, "6"), start("a", 2), step(3, "2")),
                     "f");
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].id == "a");
  CHECK(runs[0].steps.column("iteration") == std::vector<double>{1, 2, 3});
  CHECK(runs[0].steps.column("lm_loss") == std::vector<double>{5, 4, 2});
  CHECK(runs[0].validations.rows() == 1);
  CHECK(runs[0].sequence_length == 8);
  REQUIRE(runs[0].warnings.size() == 1);  // step 3 of run a was replaced
  CHECK(runs[0].warnings[0].find("run 1") != std::string::npos);
  CHECK(runs[1].id == "b");
  CHECK(runs[1].steps.column("lm_loss") == std::vector<double>{7, 6});
  CHECK(runs[1].sequence_length == 16);
  CHECK(runs[1].warnings.empty());

  // Without ids, an iteration of 0 begins a run, and any other continues it.
  CHECK(parse_run_logs(cat(start("", 0), step(1, "5"), start("", 1), step(2, "4")), "f").size() == 1);
  runs = parse_run_logs(cat(start("", 0), step(1, "5"), start("", 0), step(1, "4"), start("", 1), step(2, "3")), "f");
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].steps.column("lm_loss") == std::vector<double>{4, 3});
  // A resumed run continues a session without an id; a new run does not.
  CHECK(parse_run_logs(cat(start("", 0), step(1, "5"), start("a", 1), step(2, "4")), "f").size() == 1);
  CHECK(parse_run_logs(cat(step(1, "5"), start("a", 0), step(1, "4")), "f").size() == 2);
  CHECK(parse_run_logs(start("a", 0) + start("b", 0), "f").size() == 2);  // no run has a point
}

TEST_CASE("run chart: accumulates time and tokens from the log") {
  RunLog log = parse_run_logs(
                   R"({"type":"start","iteration":0,"seq_length":128})"
                   "\n"
                   R"({"type":"step","iteration":10,"consumed_samples":80,"lm_loss":3,"elapsed_ms_per_iteration":100})"
                   "\n"
                   R"({"type":"step","iteration":20,"consumed_samples":160,"lm_loss":2,"elapsed_ms_per_iteration":300})"
                   "\n"
                   R"({"type":"validation","iteration":20,"consumed_samples":160,"loss":2.5})"
                   "\n",
                   "f")
                   .front();
  RunChartOptions options;
  options.x = "time";
  Chart chart = make_run_chart({log}, options);
  REQUIRE(chart.panels.size() == 1);
  CHECK(chart.panels[0].series[0].x == std::vector<double>{1, 4});
  CHECK(chart.panels[0].series[1].x == std::vector<double>{4});
  options.x = "tokens";
  CHECK(make_run_chart({log}, options).panels[0].series[0].x == std::vector<double>{10240, 20480});
}
