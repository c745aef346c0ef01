// Schedules, compared with Megatron-LM's, with printed text, and with invariants that all schedules satisfy.
#include "layout/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "tests/doc_table.h"
#include "tests/error_of.h"
#include "tests/golden_lines.h"
#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the actions in the golden file's notation. "S0" precedes the backward pass after which chunk 0's gradients
/// are exchanged.
std::vector<std::string> steps(const std::vector<Action>& actions) {
  std::vector<std::string> out;
  StepSchedule schedule(actions);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (schedule.ends_gradients[i]) out.push_back(cat("S", action.chunk));
    out.push_back(cat(action.kind == ActionKind::forward ? "F" : "B", action.micro_batch, ".", action.chunk));
  }
  return out;
}

std::vector<std::string> strings(const Json& json) {
  std::vector<std::string> out;
  for (const Json& word : json.as_array()) out.push_back(word.as_string());
  return out;
}

std::vector<Action> stage_actions(ScheduleKind kind, const PipelineCase& shape, int stage) {
  return stage_schedule(shape.layout(kind), stage, shape.micro_batches);
}
std::vector<Action> gpipe(int stages, int stage, int micro_batches) {
  return stage_actions(ScheduleKind::gpipe, {.stages = stages, .micro_batches = micro_batches}, stage);
}
std::vector<Action> one_forward_one_backward(int stages, int stage, int micro_batches) {
  return stage_actions(ScheduleKind::one_forward_one_backward, {.stages = stages, .micro_batches = micro_batches},
                       stage);
}
std::vector<Action> interleaved(int stages, int stage, int chunks, int micro_batches) {
  return stage_actions(ScheduleKind::interleaved, {stages, chunks, micro_batches}, stage);
}

}  // namespace

TEST_CASE("pipeline schedules equal Megatron's step by step, and so do refusals") {
  int cases = 0, refused = 0;
  for (const Json& json : golden_lines("golden/ranks/pipeline.jsonl")) {
    auto size = [&](const char* key) { return static_cast<int>(json.int_or(key, 0)); };
    PipelineCase shape{.stages = size("p"),
                       .chunks = size("v"),
                       .micro_batches = size("m"),
                       .group = json.at("n").is_null() ? 0 : size("n")};
    ScheduleKind kind = shape.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
    CAPTURE(json.dump().substr(0, 60));
    ++cases;
    if (!json.at("error").is_null()) {
      ++refused;
      CHECK_THROWS_AS(shape.schedule(kind), Error);
      continue;
    }
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<Action> actions = stage_schedule(shape.layout(kind), stage, shape.micro_batches);
      CHECK(steps(actions) == strings(json.at("order").as_array()[static_cast<std::size_t>(stage)]));
      // The forwards before the first backward: the warm-up, and one more if there is one.
      const auto backward = std::ranges::find(actions, ActionKind::backward, &Action::kind);
      const std::int64_t warmup = json.at("warmup").as_array()[static_cast<std::size_t>(stage)].as_int();
      CHECK(backward - actions.begin() == std::min<std::int64_t>(warmup + 1, shape.micro_batches * shape.chunks));
    }
  }
  CHECK(cases == 39);
  CHECK(refused == 3);
}

TEST_CASE("the order of interleaved forward passes equals Megatron's") {
  int cases = 0;
  for (const Json& json : golden_lines("golden/ranks/schedule_table.jsonl")) {
    auto size = [&](const char* key) { return static_cast<int>(json.at(key).as_int()); };
    std::vector<std::pair<int, int>> table;
    for (const Json& row : json.at("table").as_array()) {
      table.emplace_back(static_cast<int>(row.as_array()[0].as_int()), static_cast<int>(row.as_array()[1].as_int()));
    }
    std::vector<std::pair<int, int>> order;
    for (const Action& action : stage_actions(ScheduleKind::interleaved, {2, size("v"), size("m"), size("n")}, 0))
      if (action.kind == ActionKind::forward) order.emplace_back(action.micro_batch, action.chunk);
    CHECK(order == table);
    ++cases;
  }
  CHECK(cases > 5);
}

TEST_CASE("schedules have a warm-up, a steady state and a cool-down") {
  CHECK(schedule_text(one_forward_one_backward(1, 0, 3)) == "F0 B0 F1 B1 F2 B2");
  CHECK(schedule_text(one_forward_one_backward(3, 0, 4)) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(schedule_text(one_forward_one_backward(3, 2, 2)) == "F0 B0 F1 B1");
  CHECK(schedule_text(one_forward_one_backward(4, 0, 2)) == "F0 F1 B0 B1");
  CHECK(schedule_text(gpipe(2, 1, 3)) == "F0 F1 F2 B0 B1 B2");
  CHECK(schedule_text(interleaved(2, 1, 2, 2)) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
}

TEST_CASE("1F1B: runs every micro-batch once each way, in order, with no more in flight than stages remain") {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int m = 1; m <= 9; ++m) {
        std::vector<Action> actions = one_forward_one_backward(stages, stage, m);
        CHECK(actions.size() == static_cast<std::size_t>(2 * m));
        CHECK(max_in_flight(actions) == std::min(stages - stage, m));
        for (int i = 0; i < m; ++i) {
          auto forward = std::find(actions.begin(), actions.end(), Action{ActionKind::forward, i, 0});
          auto backward = std::find(actions.begin(), actions.end(), Action{ActionKind::backward, i, 0});
          CHECK(forward < backward);
          CHECK(backward != actions.end());
        }
      }
    }
  }
}

TEST_CASE("in flight: GPipe keeps all, interleaving counts by chunk, communication does not count") {
  CHECK(max_in_flight(gpipe(4, 3, 7)) == 7);
  std::vector<Action> actions = interleaved(4, 0, 2, 8);
  CHECK(max_in_flight(actions) == 11);  // the warm-up with 10 and one more
  CHECK(max_in_flight(actions, 0) == 8);
  CHECK(max_in_flight(actions, 1) == 4);  // the chunks' maxima do not coincide
  CHECK(max_in_flight(with_communication(actions, {4, 2}, 0), 0) == 8);
}

TEST_CASE("communication: the ends of the model have no peer") {
  auto text = [](int stages, int stage, int chunks, const std::vector<Action>& actions) {
    return schedule_text(with_communication(actions, {stages, chunks}, stage));
  };
  CHECK(text(1, 0, 1, one_forward_one_backward(1, 0, 1)) == "F0 B0");
  CHECK(text(2, 0, 1, one_forward_one_backward(2, 0, 2)) == "F0 sF0 F1 sF1 rB0 B0 rB1 B1");
  CHECK(text(3, 1, 1, one_forward_one_backward(3, 1, 1)) == "rF0 F0 sF0 rB0 B0 sB0");
  CHECK(text(2, 1, 2, interleaved(2, 1, 2, 2)).substr(0, 48) == "rF0.0 F0.0 sF0.0 rF1.0 F1.0 sF1.0 rF0.1 F0.1 B0.");
  CHECK(peer_stage({ActionKind::send_forward, 0, 0}, {4, 2}, 3) == 0);
  CHECK(peer_stage({ActionKind::receive_forward, 0, 1}, {4, 2}, 0) == 3);
  CHECK(peer_stage({ActionKind::send_backward, 0, 1}, {4, 2}, 0) == 3);
  CHECK(peer_stage({ActionKind::receive_backward, 0, 0}, {4, 2}, 3) == 0);
}

TEST_CASE("schedules: docs/parallel.md has a row for each, and names lead to their kinds") {
  // Those that run without --pipeline-schedule are there under other names.
  std::vector<std::string> documented = {"1f1b", "interleaved"};
  const auto rows = test::doc_table("../docs/parallel.md", "| schedule | flags |");
  for (const auto& row : rows) {
    const std::string flag = "`--pipeline-schedule ";
    if (starts_with(row.at(1), flag)) documented.push_back(row[1].substr(flag.size(), row[1].size() - flag.size() - 1));
  }
  std::vector<std::string> names = texts_of(kSchedules, &ScheduleTraits::name);
  CHECK(rows.size() == names.size());
  std::ranges::sort(documented);
  std::ranges::sort(names);
  CHECK(documented == names);
  for (const ScheduleTraits& row : kSchedules) CHECK(find_schedule(schedule_name(row.kind)) == row.kind);
  CHECK(test::error_of([] { find_schedule("2f2b"); }) == "no schedule is named '2f2b'");
}
