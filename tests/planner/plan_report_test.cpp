// What plans and scripts say of made-up layouts and times, whole.
#include "planner/plan_report.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/str.h"
#include "planner/layout_report.h"
#include "tests/error_of.h"
#include "tests/planner/plan_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// 16 ranks on two nodes.
PlanRequest request_of(std::int64_t world = 16) {
  PlanRequest out = request_for(world, 80);
  out.config = gpt_of_size({.vocab = 1000, .layers = 4, .hidden = 64, .heads = 4, .positions = 512});
  out.machine = arithmetic_machine();
  out.node_size = 8;
  out.machine.origin = "mine.json";
  out.machine.sources = {"peak 1: a test"};
  out.machine.links = {.inside_gbs = 400, .between_gbs = 40, .inside_us = 3, .between_us = 7, .host_gbs = 60};
  out.machine.efficiency.attention_forward = 0.5;
  out.machine.efficiency.attention_backward = 0.25;
  out.machine.efficiency.memory = 0.75;
  out.run.batch.global_batch_size = 32;
  out.run.data.seq_length = 512;
  out.run.threads = 2;
  return out;
}

constexpr LayoutChoice kFast{.tensor = 2,
                             .pipeline = 2,
                             .sequence_parallel = true,
                             .schedule = ScheduleKind::interleaved,
                             .chunks = 2,
                             .zero = 1,
                             .micro_batch = 2};
constexpr LayoutChoice kSlow{
    .tensor = 4,
    .context = 2,
    .pipeline = 2,
    .is_balanced = true,
    .schedule = ScheduleKind::gpipe,
    .micro_batch = 4,
    .savings = 1U << enum_index(Saving::recompute_layers) | 1U << enum_index(Saving::offload_to_files)};

/// Two simulated layouts, and two that are too large.
LayoutPlans made_up(const PlanRequest& request) {
  const auto options = [&](const LayoutChoice& choice) { return choice.options(request.run); };
  LayoutChoice large = kSlow;
  large.savings = 0;
  return {.best = {{.options = options(kFast),
                    .bytes = 20'000'000'000,
                    .host_bytes = 1000,
                    .bound_ms = 80,
                    .time = StepTime{.ms = 100,
                                     .stages = {{.compute = 60,
                                                 .waits = {{"data", 8}, {"pipeline", 0}, {"tensor", 12}},
                                                 .message_wait = 5,
                                                 .idle = 15,
                                                 .sent = 8},
                                                {.compute = 70,
                                                 .waits = {{"data", 8}, {"tensor", 12}},
                                                 .message_wait = 1,
                                                 .idle = 9,
                                                 .sent = 9}}}},
                   {.options = options(kSlow),
                    .bytes = 10'000'000'000,
                    .host_bytes = 2'000'000,
                    .bound_ms = 90,
                    .time = StepTime{.ms = 120,
                                     .stages = std::vector<StageTime>(2, {.compute = 61,
                                                                          .waits = {{"context", 4},
                                                                                    {"data", 9},
                                                                                    {"embedding", 1},
                                                                                    {"files", 7},
                                                                                    {"host", 6},
                                                                                    {"pipeline", 5},
                                                                                    {"tensor", 20}},
                                                                          .message_wait = 3.5,
                                                                          .idle = 3.5})}}},
          .too_large = {{.options = options(large), .bytes = 90'000'000'000, .host_bytes = 500, .bound_ms = 70},
                        {.options = options({.pipeline = 4, .zero = 1}), .bytes = 95'000'000'000}},
          .layouts = 1200,
          .candidates = 3400,
          .bounded = 50,
          .planned = 40,
          .fitting = 30,
          .simulated = 2,
          .unmeasured = {"gelu", "rope"}};
}

/// Returns the text before the tables of memory, which depends on the operators' workspaces.
std::string before_memory(const std::string& text) { return text.substr(0, text.find("Memory")); }

void check_golden(const std::string& name, const std::string& text) {
  CAPTURE(name);
  CHECK(text == read_file("golden/planner/" + name));
}

}  // namespace

TEST_CASE("plan reports: of layouts that fit") {
  const PlanRequest request = request_of();
  const LayoutPlans plans = made_up(request);
  check_golden("plan.txt", before_memory(plan_text(plans, request)));
  check_golden("plan.json", plan_json(plans, request).dump(1) + "\n");
  Candidate timed = plans.best[1];
  timed.time->unmeasured = {"gelu"};
  check_golden("time.txt", before_memory(time_text(timed, request)));
  const Json json = time_json(timed, request);
  CHECK(json.at("schema").as_string() == "mtl-time/1");
  CHECK(json.at("layout") == layout_json(plans.best[1], request));
  CHECK(json.at("unmeasured").as_array().size() == 1);
  PlanRequest tight = request;
  const std::string no_fit = "the layout does not fit in a device's memory\n";
  for (const auto& [bytes, fits] : {std::pair(0.0, true), {1e10, true}, {1e10 - 1, false}}) {
    tight.device_bytes = bytes;
    CHECK((time_text(timed, tight).find(no_fit) == std::string::npos) == fits);
  }
}

TEST_CASE("plan reports: of layouts that do not fit") {
  PlanRequest request = request_of();
  LayoutPlans plans = made_up(request);
  plans.best.clear();
  plans.fitting = 0;
  plans.layouts = 1;
  const std::string counts =
      "  1 layout, 3,400 with savings; of these, 50 may fit\n  40 planned, 0 fit\n"
      "no layout fits; those that need the least memory:\n";
  const std::string text = plan_text(plans, request);
  CHECK(text.substr(text.find("  1 layout,")) ==
        counts + "  tp 4, cp 2, pp 2, no sequence parallelism, all_gather, gpipe balanced, micro-batch 4: 83.8 GiB\n" +
            "  pp 4, dp 4, ZeRO-1, 1f1b, micro-batch 1: 88.5 GiB\n");
  request.host_bytes = 1e9;
  CHECK(plan_text(plans, request).find("83.8 GiB, and 3.9 KiB of each host\n") != std::string::npos);
  plans = {};
  CHECK(plan_text(plans, request).ends_with("\n  0 layouts\n"));
}

TEST_CASE("plan reports: why there is no layout") {
  PlanRequest request = request_of();
  LayoutPlans plans = made_up(request);
  PlanDevices devices;
  const auto reason = [&] { return error_of([&] { require_layout(plans, request, devices); }, Exit::failure); };
  CHECK(reason().empty());
  plans.best.clear();
  CHECK(reason().starts_with("test: no layout fits in 80 GB; "));
  devices.device_memory = "80";
  devices.host_memory = "1GB";
  request.host_bytes = 1e9;
  CHECK(reason().starts_with("--device-memory 80: no layout fits in 80 GB and --host-memory 1GB; "));
  plans = {};
  CHECK(reason().starts_with("--world-size 16: the ranks cannot be divided: "));
  request.fixed.tensor = 4;
  request.fixed.flags = {"--tensor-model-parallel-size", "4"};
  CHECK(reason() ==
        "--tensor-model-parallel-size 4: no layout of 16 ranks is like this; give fewer of these flags, or other "
        "values");
}

TEST_CASE("plan reports: the machine") {
  PlanRequest request = request_of(12);
  request.device_bytes = 0;
  CHECK(machine_text(request, {}) ==
        "12 ranks on 2 nodes of 8 test\n"
        "  published shares of peak rates: gemm 100 %, attention 50 % forward and 25 % backward, memory 75 % "
        "(mine.json)\n"
        "  links in GB/s: 400 inside a node, 40 between nodes; latency in us: 3, 7\n");
  request.machine.links.disk_gbs = 0.5;
  Json machine = Json::object();
  set_machine(machine, request, {});
  CHECK(machine.at("links").at("disk_gbs").as_number() == 0.5);
  CHECK(machine.at("efficiency").as_string() == "published");
  request.machine.measured = std::make_shared<OperatorTimes>(times_of(kProfile));
  request.run.parallel.world = 8;
  CHECK(machine_text(request, {"a", "b"}) ==
        "8 ranks on 1 node of 8 test\n  operators: mine.json\n  not in the profile, timed by their bytes: a, b\n"
        "  links in GB/s: 400 inside a node, 40 between nodes; latency in us: 3, 7\n  disk for a rank: 0.5 GB/s\n");
}

TEST_CASE("plan reports: a layout and what saves memory") {
  const PlanRequest request = request_of();
  const auto text_of = [&](const LayoutChoice& choice) {
    return layout_text({.options = choice.options(request.run)});
  };
  CHECK(text_of({}) == "dp 16, micro-batch 1");
  CHECK(text_of(kFast) == "tp 2, pp 2, dp 4, ZeRO-1, interleaved x 2, micro-batch 2");
  TrainOptions options = kFast.options(request.run);
  options.parallel.schedule.reset();
  options.parallel.overlap_grad_reduce = false;
  CHECK(layout_text({.options = options}) ==
        "tp 2, pp 2, dp 4, ZeRO-1, not overlapped, interleaved x 2, micro-batch 2");
  options.parallel.world = 8;
  CHECK(layout_text({.options = options}).starts_with("tp 2, pp 2, dp 2, ZeRO-1, not overlapped, "));
  options.parallel.world = 4;
  CHECK(layout_text({.options = options}).starts_with("tp 2, pp 2, ZeRO-1, interleaved "));
  CHECK(text_of({.tensor = 2}) == "tp 2, dp 8, no sequence parallelism, micro-batch 1");
  options.parallel.virtual_stages.reset();
  options.parallel.layers_per_virtual_stage = 1;
  CHECK(layout_text({.options = options}).find(", interleaved by 1, ") != std::string::npos);
  options.parallel.layers_per_virtual_stage.reset();
  options.parallel.layer_layout = "Et*2|t*2L";
  CHECK(layout_text({.options = options}).find(", 1f1b Et*2|t*2L, ") != std::string::npos);

  const auto savings_of = [&](std::initializer_list<Saving> savings) {
    LayoutChoice choice = kFast;
    for (const Saving saving : savings) choice.savings |= 1U << enum_index(saving);
    return savings_text({.options = choice.options(request.run), .host_bytes = 3 << 20});
  };
  CHECK(savings_of({}).empty());
  CHECK(savings_of({Saving::recompute_attention}) == "recompute selective");
  CHECK(savings_of({Saving::recompute_layers, Saving::offload_to_files}) == "recompute full, optimizer in files");
  CHECK(savings_of({Saving::offload_activations}) == "activations on the host, 3.0 MiB of host memory");
  CHECK(savings_of({Saving::offload_optimizer}) == "optimizer on the host, 3.0 MiB of host memory");
}

TEST_CASE("plan reports: scripts for one node, for several, and for CPUs") {
  const std::vector<std::string> given = {"--num-layers", "4", "--data-path", "a b"};
  PlanRequest request = request_of();
  check_golden("slurm.txt", plan_script(made_up(request), request, given));
  request.run.parallel.world = 12;
  const std::string partial = plan_script(made_up(request), request, given);
  CHECK(partial.find(
            "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks=12\n") !=
        std::string::npos);
  CHECK(partial.find("\nsrun --distribution=block,Pack --mpi=pmix --kill-on-bad-exit=1 mtl-train \\\n") !=
        std::string::npos);
  request.run.device = Device::cpu;
  CHECK(plan_script(made_up(request), request, given).find("gpus") == std::string::npos);
  request.run.parallel.world = 8;
  LayoutPlans plans = made_up(request);
  std::swap(plans.best[0], plans.best[1]);
  check_golden("mpirun.txt", plan_script(plans, request, given));
}
