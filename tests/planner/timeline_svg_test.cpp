// Drawings of steps: read back from the SVG, and compared with the schedule's chart and with the stages' times.
#include "planner/timeline_svg.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>

#include "base/str.h"
#include "tests/planner/planner_fixtures.h"
#include "tests/planner/trace_fixtures.h"
#include "topo/output.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct DrawnBox {
  std::string style;
  double x, y, width, height;
};

/// What a drawing without a cut has for a stage.
struct DrawnStage {
  double left = 0, width = 0, height = 0;       // of its band
  std::vector<DrawnBox> boxes;                  // by x
  std::vector<std::pair<double, int>> numbers;  // x, micro-batch
};

std::vector<std::smatch> all_matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

DrawnStage read_stage(const std::string& svg, int stage) {
  const std::size_t begin = svg.find(cat("<g id=\"stage", stage, "\">"));
  REQUIRE(begin != std::string::npos);
  const std::string text = svg.substr(begin, svg.find("</g>", begin) - begin);
  DrawnStage out;
  const std::regex band(R"re(<rect x="([^"]+)" y="[^"]+" width="([^"]+)" height="([^"]+)" class="band")re");
  const std::vector<std::smatch> bands = all_matches(text, band);
  REQUIRE(bands.size() == 1);
  out.left = std::stod(bands[0][1]);
  out.width = std::stod(bands[0][2]);
  out.height = std::stod(bands[0][3]);
  for (const std::smatch& path : all_matches(text, std::regex(R"re(fill="url\(#([a-z0-9]+)\)" d="([^"]*)")re"))) {
    const std::string data = path[2];
    for (const std::smatch& box : all_matches(data, std::regex("M([^ ]+) ([^h]+)h([^v]+)v([^h]+)h-[^z]+z")))
      out.boxes.push_back({path[1], std::stod(box[1]), std::stod(box[2]), std::stod(box[3]), std::stod(box[4])});
  }
  std::ranges::sort(out.boxes, {}, &DrawnBox::x);
  for (const std::smatch& number : all_matches(text, std::regex(R"re(<text x="([^"]+)"[^>]*>(\d+)<)re")))
    out.numbers.emplace_back(std::stod(number[1]), std::stoi(number[2]));
  return out;
}

/// Returns the micro-batch that is written on a box.
int number_on(const DrawnStage& stage, const DrawnBox& box) {
  const auto found = std::ranges::find_if(
      stage.numbers, [&](const auto& number) { return number.first > box.x && number.first < box.x + box.width; });
  REQUIRE(found != stage.numbers.end());
  return found->second;
}

/// Returns a stage as draw_schedule() writes it.
std::string stage_line(const DrawnStage& stage, int cells, bool has_kinds, int chunks) {
  const int cell = has_kinds || chunks > 1 ? 2 : 1;
  std::string out(static_cast<std::size_t>(cells * cell), '.');
  for (const DrawnBox& box : stage.boxes) {
    const auto cells_to = [&](double x) { return std::lround((x - stage.left) / stage.width * cells); };
    const long begin = cells_to(box.x), end = cells_to(box.x + box.width);
    const int chunk = box.style.back() - '0';
    std::string text = cat(number_on(stage, box) % 10);
    if (has_kinds)
      text += static_cast<char>(chunk == 0 ? box.style[0] : std::toupper(box.style[0]));
    else if (chunks > 1)
      text += static_cast<char>('a' + chunk);
    text.resize(static_cast<std::size_t>((end - begin) * cell), '\'');
    out.replace(static_cast<std::size_t>(begin * cell), text.size(), text);
  }
  return out;
}

}  // namespace

TEST_CASE("with free links, the drawing of a step is the schedule's chart") {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"}) {
    CAPTURE(name);
    TopoOptions options;
    options.run.parallel.world = options.run.parallel.pipeline = 4;
    options.run.parallel.schedule = name;
    if (name == std::string("interleaved")) options.run.parallel.virtual_stages = 2;
    options.micro_batches = 8;
    const TopoReport report(options);
    REQUIRE(report.schedule);
    const std::vector<StepTrace> traces = unit_traces(report.layout, report.schedule->stages, 8);
    Timeline timeline;
    const StepTime time = simulate_step(traces, report.layout, 8, arithmetic_machine(), false, &timeline);
    const std::string svg = timeline_svg(timeline, time, "a & b", "c < d");
    CHECK(svg.find("<title>a &amp; b</title>") != std::string::npos);
    std::vector<std::string> expected;
    for (const std::string& line : split(draw_schedule(report, {.width = 1000}), '\n'))
      if (starts_with(line, "  stage ")) expected.emplace_back(line.substr(11));
    REQUIRE(expected.size() == 4);
    const int cells = static_cast<int>(std::lround(timeline.ms));
    CHECK(cells == std::lround(report.schedule->times.total));
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(stage);
      CHECK(stage_line(read_stage(svg, stage), cells, defers_weights(report.layout.schedule), report.layout.chunks) ==
            expected[static_cast<std::size_t>(stage)]);
    }
  }
}

TEST_CASE("boxes of a stage do not overlap, and their areas are its times") {
  RunShape shape = shape_of({.tensor = 2, .data = 2, .pipeline = 4}, 6);
  shape.layout.zero = 1;
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 60, .between_gbs = 20, .inside_us = 1, .between_us = 2};
  Timeline timeline;
  const StepTime time = simulate_step(trace_all(small_model(), shape), shape.layout, 4, machine, false, &timeline);
  const std::string svg = timeline_svg(timeline, time, "title", "subtitle");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("tensor, in node") != std::string::npos);
  CHECK(svg.find("messages, between nodes") != std::string::npos);
  std::size_t legend = 0;  // in order
  for (const char* name : {"forward", "backward", "waits for links", "idle", "links in the node", "links between nodes",
                           "Numbers are micro-batches. "}) {
    CAPTURE(name);
    legend = svg.find(cat(">", name), legend);
    REQUIRE(legend != std::string::npos);
  }
  CHECK(all_matches(svg, std::regex(R"re(width="18" height="\d+" (fill|class))re")).size() == 6);  // its swatches
  for (int number = 0; number < 4; ++number) {
    CAPTURE(number);
    const DrawnStage stage = read_stage(svg, number);
    const StageTime& expected = time.stages[static_cast<std::size_t>(number)];
    double right = stage.left, computes = 0, waits = 0;
    for (std::size_t i = 0; i < stage.boxes.size(); ++i) {
      const DrawnBox& box = stage.boxes[i];
      (box.style == "wait" ? waits : computes) += box.width * box.height / (stage.width * stage.height) * timeline.ms;
      // A box and the share of its waits below it have the same place.
      if (i > 0 && box.x == stage.boxes[i - 1].x) {
        CHECK(box.height + stage.boxes[i - 1].height == doctest::Approx(stage.height).epsilon(1e-3));
        continue;
      }
      CHECK(box.x >= right - 0.05);
      right = box.x + box.width;
    }
    CHECK(computes == doctest::Approx(expected.compute).epsilon(5e-3));
    CHECK(waits == doctest::Approx(expected.waiting()).epsilon(2e-2));
  }
}

TEST_CASE("of a long step, the begin and the end are drawn, in a small file") {
  Layout layout;
  layout.grid = RankGrid({.pipeline = 18});
  const std::vector<StepTrace> traces = unit_traces(layout, pipeline_schedule(layout, 1000), 1000);
  Timeline timeline;
  const StepTime time = simulate_step(traces, layout, 8, arithmetic_machine(), false, &timeline);
  const std::string svg = timeline_svg(timeline, time, "title", "subtitle");
  CHECK(svg.find(" ms left out<") != std::string::npos);
  CHECK(svg.find("stages 8 to 9 are not shown") != std::string::npos);
  CHECK(svg.find("<g id=\"stage7\">") != std::string::npos);
  CHECK(svg.find("<g id=\"stage8\">") == std::string::npos);
  CHECK(svg.find(">0<") != std::string::npos);    // the first micro-batch
  CHECK(svg.find(">999<") != std::string::npos);  // and the last
  CHECK(svg.find(">500<") == std::string::npos);
  CHECK(svg.size() < 1000000);
}

TEST_CASE("a single stage is not left out") {
  Layout layout;
  layout.grid = RankGrid({.pipeline = 17});
  Timeline timeline;
  const StepTime time = simulate_step(unit_traces(layout, pipeline_schedule(layout, 20), 20), layout, 8,
                                      arithmetic_machine(), false, &timeline);
  const std::string svg = timeline_svg(timeline, time, "title", "subtitle");
  CHECK(svg.find("are not shown") == std::string::npos);
  CHECK(svg.find("<g id=\"stage8\">") != std::string::npos);
}
