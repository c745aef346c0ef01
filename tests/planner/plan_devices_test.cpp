// The devices that flags describe: what is missing, and what a request takes from them.
#include "planner/plan_devices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "planner/layout_report.h"
#include "planner/machine.h"
#include "planner/plan_layouts.h"
#include "run/presets.h"
#include "tests/error_of.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the problems, each as a line "FLAG WHAT".
std::string problems_of(PlanDevices devices, TrainOptions run = {}) {
  std::string out;
  check_devices(devices, run,
                [&](const std::string& flag, const std::string& what) { out += flag + " " + what + "\n"; });
  CHECK(run.device == Device::cuda);
  return out;
}

}  // namespace

TEST_CASE("plan devices: what must be known") {
  CHECK(problems_of({.hardware = "H100"}).empty());
  CHECK(problems_of({.hardware = "mine.json"}).empty());  // read by request()
  CHECK(problems_of({}).starts_with("--hardware is required: the GPUs' model, one of "));
  CHECK(problems_of({.hardware = "V9000"}).starts_with("--hardware V9000 is not known; use one of "));
  for (const char* size : {"0", "80GiB", "", "2e9", "-1GB"}) {
    CAPTURE(size);
    CHECK(problems_of({.hardware = "H100", .device_memory = size}) ==
          std::string("--device-memory ") + size + " is not a number of GB from 1e-6 to 1e9, as in 80GB\n");
  }
  CHECK(problems_of({.hardware = "H100", .device_memory = "80GB"}).empty());
}

TEST_CASE("plan devices: flags replace what the machine states") {
  TrainOptions run;
  run.parallel.world = 4;
  const Machine& machine = *find_machine("H100");
  const PlanRequest known = PlanDevices{.hardware = "h100"}.request(run, {});
  CHECK(known.machine.device.name == "H100");
  CHECK(known.node_size == machine.devices_per_node);
  CHECK(known.device_bytes == machine.device_gb * 1e9);
  CHECK(known.host_bytes == PlanRequest{}.host_bytes);
  CHECK(known.machine.links.inside_gbs == machine.links.inside_gbs);
  run.parallel.gpus_per_node = 2;
  const PlanRequest given = PlanDevices{.hardware = "H100",
                                        .device_memory = "40GB",
                                        .host_memory = "500",
                                        .inside_gbs = 1,
                                        .between_gbs = 2,
                                        .inside_us = 3,
                                        .between_us = 4,
                                        .host_gbs = 5,
                                        .disk_gbs = 6}
                                .request(run, {});
  const Links& links = given.machine.links;
  CHECK(given.node_size == 2);
  CHECK(given.device_bytes == 40e9);
  CHECK(given.host_bytes == 500e9);
  CHECK(links.inside_gbs == 1);
  CHECK(links.between_gbs == 2);
  CHECK(links.inside_us == 3);
  CHECK(links.between_us == 4);
  CHECK(links.host_gbs == 5);
  CHECK(links.disk_gbs == 3);  // of each of the node's ranks
}

TEST_CASE("plan devices: the efficiency of mtl's kernels where it is known, or as given") {
  const auto request = [](const char* gpu, std::optional<std::string> efficiency) {
    return PlanDevices{.hardware = gpu, .efficiency = std::move(efficiency)}.request({}, {});
  };
  const auto sources_of = [](const PlanRequest& of, const std::string& beginning) {
    return std::ranges::count_if(of.machine.sources,
                                 [&](const std::string& source) { return starts_with(source, beginning); });
  };
  for (const std::optional<std::string>& given : {std::optional<std::string>(), std::optional<std::string>("mtl")}) {
    const PlanRequest mtl = request("H200", given);
    CHECK(mtl.machine.efficiency_of == "mtl");
    CHECK(mtl.machine.efficiency.memory == doctest::Approx(0.588));
    CHECK(sources_of(mtl, "efficiency.mtl.") == 4);
    CHECK(sources_of(mtl, "efficiency.") == 4);
    CHECK(machine_text(mtl, {}).find("\n  mtl shares of peak rates: gemm 72.7 %, ") != std::string::npos);
    Json json = Json::object();
    set_machine(json, mtl, {});
    CHECK(json.at("efficiency").as_string() == "mtl");
  }
  for (const auto& [gpu, given] :
       {std::pair("H200", std::optional<std::string>("published")), std::pair("H100", std::optional<std::string>()),
        std::pair("H100", std::optional<std::string>("published"))}) {
    const PlanRequest published = request(gpu, given);
    CHECK(published.machine.efficiency_of == "published");
    CHECK(published.machine.efficiency.memory == doctest::Approx(0.90));
    CHECK(sources_of(published, "efficiency.mtl.") == 0);
    CHECK(sources_of(published, "efficiency.") == 4);
    CHECK(published.machine.sources.size() == 16);
  }
  CHECK(error_of([&] { request("H100", "mtl"); }, Exit::usage) ==
        "--efficiency mtl: share/hardware/H100.json does not have \"efficiency.mtl\", the shares that mtl's kernels "
        "reach; use --efficiency published");
}

TEST_CASE("plan devices: with the efficiency of mtl's kernels, steps take as long as measured on an H200") {
  struct Measured {
    const char* model;
    std::int64_t samples;
    double tokens_per_second;  // docs/benchmarks.md; the shares are from the first and the last run
  };
  for (const Measured& each : {Measured{"gpt2-124m", 32, 543'700}, Measured{"gpt2-345m", 16, 205'600},
                               Measured{"gpt2-1558m", 8, 47'800}, Measured{"llama3.2-1b", 8, 78'500}}) {
    CAPTURE(each.model);
    TrainOptions run;
    apply_preset(find_preset(each.model), run.architecture);
    run.data.seq_length = 1024;
    run.batch.micro_batch_size = each.samples;
    run.precision.bf16 = true;
    run.hidden_dropout = run.attention_dropout = 0;
    run.device = Device::cuda;
    run.dry_run = true;
    run.threads = 1;
    const GptConfig config = resolve_config(
        run, {}, 50257, [](const std::string& flag, const std::string& what) { FAIL(flag << " " << what); });
    const Candidate timed = time_layout(PlanDevices{.hardware = "H200"}.request(run, config));
    // In the measured steps, the gradients of biases took passes of their own.
    CHECK(std::abs(tokens_per_second(timed) / each.tokens_per_second - 1) < 0.11);
  }
}
