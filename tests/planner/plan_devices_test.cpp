// The devices that flags describe: what is missing, and what a request takes from them.
#include "planner/plan_devices.h"

#include <doctest/doctest.h>

#include "planner/machine.h"

using namespace mtl;

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
