// Descriptions of devices: those of share/hardware agree with the profiler's peak rates, and mistakes are found.
#include "planner/hardware_file.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "tests/planner/planner_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::string refusal_of(const std::string& text) {
  try {
    parse_hardware(text, "mine.json");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("hardware: the program has the files of share/hardware, under their names") {
  REQUIRE(known_machines().size() >= 7);
  for (const Machine& each : known_machines()) {
    CAPTURE(each.origin);
    CHECK(each.origin == "share/hardware/" + each.device.name + ".json");
    const Machine now = parse_hardware(read_file("../" + each.origin), each.origin);
    CHECK(now.sources == each.sources);
    CHECK(each.sources.size() == (each.mtl_efficiency ? 20 : 16));
    CHECK(find_machine(each.device.name) == &each);
  }
  CHECK(find_machine("l40s")->device.name == "L40S");
  CHECK(find_machine("NVIDIA H100 80GB HBM3")->device.name == "H100");
  CHECK(find_machine("V9000") == nullptr);
}

TEST_CASE("hardware: the profiler's peak rates are those of the files") {
  for (const Hardware& device : known_hardware()) {
    CAPTURE(device.name);
    const Machine* machine = find_machine(device.name);
    REQUIRE(machine != nullptr);
    CHECK(machine->device.tflops_16 == device.tflops_16);
    CHECK(machine->device.tflops_tf32 == device.tflops_tf32);
    CHECK(machine->device.tflops_f32 == device.tflops_f32);
    CHECK(machine->device.dram_gbs == device.dram_gbs);
  }
}

TEST_CASE("hardware: every quantity reaches its member, in its unit") {
  const std::string text = read_file("../share/hardware/H100.json");
  const Machine machine = parse_hardware(text, "mine.json");
  CHECK(machine.efficiency.gemm == doctest::Approx(0.80));
  CHECK(machine.efficiency.attention_forward == doctest::Approx(0.375));
  CHECK(machine.efficiency.attention_backward == doctest::Approx(0.427));
  CHECK(machine.best_share() == doctest::Approx(0.80));
  CHECK(machine.efficiency.memory == doctest::Approx(0.90));
  CHECK(machine.launch_us == 0);
  CHECK(machine.device_gb == 80);
  CHECK(machine.links.inside_gbs == 450);
  CHECK(machine.links.inside_us == 5);
  CHECK(machine.links.between_gbs == 50);
  CHECK(machine.links.between_us == 10);
  CHECK(machine.links.host_gbs == 64);
  CHECK(machine.devices_per_node == 8);
  CHECK(parse_hardware(replaced(text, "\"8\"", "\"4\""), "mine.json").devices_per_node == 4);
  CHECK(machine.efficiency_of == "published");
  CHECK_FALSE(machine.mtl_efficiency);
  CHECK(machine.device.source == "mine.json");
  CHECK(machine.sources.at(1) == "peak.tf32 494.7 TFLOP/s: NVIDIA H100 SXM data sheet, dense");
}

TEST_CASE("hardware: the efficiency of mtl's kernels is beside that of published ones") {
  const std::string text = read_file("../share/hardware/H200.json");
  const Machine machine = parse_hardware(text, "mine.json");
  CHECK(machine.efficiency.gemm == doctest::Approx(0.80));
  REQUIRE(machine.mtl_efficiency);
  CHECK(machine.mtl_efficiency->gemm == doctest::Approx(0.727));
  CHECK(machine.mtl_efficiency->attention_forward == doctest::Approx(0.231));
  CHECK(machine.mtl_efficiency->attention_backward == doctest::Approx(0.175));
  CHECK(machine.mtl_efficiency->memory == doctest::Approx(0.588));
  for (const std::string& source : machine.sources)
    if (starts_with(source, "efficiency.mtl.")) CHECK(source.find(": mtl 0cb9e992 on one H200, ") != std::string::npos);

  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal_of(replaced(text, from, to));
  };
  for (const char* share : {"100.1 %", "0 %", "-1 %"})
    CHECK(with("58.8 %", share) ==
          cat("mine.json: line 22: \"efficiency.mtl.memory\" is \"", share, "\"; it must be from 1e-06 to 100"));
  CHECK(with("58.8 %", "nan %").starts_with("mine.json: line 22: \"efficiency.mtl.memory\" is \"nan %\"; "));
  CHECK(with("58.8 %", "0.588") == "mine.json: line 22: \"efficiency.mtl.memory\" is \"0.588\"; write it in %");
  CHECK(with("\"gemm\": {\"value\": \"72.7", "\"norm\": {\"value\": \"72.7") ==
        "mine.json: line 18: \"efficiency.mtl.gemm.value\" is missing");
  CHECK(with("\"mtl\": {", "\"mtl\": {\"norm\": {\"value\": \"50 %\", \"source\": \"a guess\"},") ==
        "mine.json: line 18: \"efficiency.mtl.norm.source\" is not known; remove it or correct its name");
  CHECK(with("\"mtl\": {", "\"mtl\": \"as published\", \"theirs\": {")
            .starts_with("mine.json: line 18: \"efficiency.mtl\" is not known; "));
}

TEST_CASE("hardware: mistakes are refused with their line") {
  const std::string text = read_file("../share/hardware/H100.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal_of(replaced(text, from, to));
  };
  CHECK(with("\"name\"", "\"nam\"") == "mine.json: line 1: \"name\" is missing");
  CHECK(with("\"name\": \"H100\"", "\"name\": \"H100\\nrm -r .\"") ==
        "mine.json: line 3: \"name\" has characters that cannot be printed, such as a line break; remove them");
  CHECK(with("  \"name\": \"H100\",\n", "  \"name\": \"H100\",\n  \"color\": \"green\",\n") ==
        "mine.json: line 4: \"color\" is not known; remove it or correct its name");
  CHECK(with("\"size\"", "\"sise\"") == "mine.json: line 9: \"memory.size.value\" is missing");
  CHECK(with("3350 GB/s", "3.35 TB/s") ==
        "mine.json: line 11: \"memory.bandwidth\" is \"3.35 TB/s\"; write it in GB/s");
  CHECK(with("3350 GB/s", "3350") == "mine.json: line 11: \"memory.bandwidth\" is \"3350\"; write it in GB/s");
  CHECK(with("3350 GB/s", "fast") == "mine.json: line 11: \"memory.bandwidth\" is \"fast\"; write a number and GB/s");
  CHECK(with("80 %", "120 %") == "mine.json: line 14: \"efficiency.gemm\" is \"120 %\"; it must be from 1e-06 to 100");
  // Rates with which times overflow.
  for (const char* rate : {"0 GB/s", "1e-300 GB/s", "1e300 GB/s"})
    CHECK(with("3350 GB/s", rate) ==
          cat("mine.json: line 11: \"memory.bandwidth\" is \"", rate, "\"; it must be from 1e-06 to 1000000000"));
  CHECK(with("5 us", "1e308 us").ends_with("is \"1e308 us\"; it must be from 0 to 1000000000"));
  CHECK(with("\"8\"", "\"2.5\"") == "mine.json: line 33: \"devices_per_node\" is \"2.5\"; write an integer");
  for (const char* devices : {"\"0\"", "\"1025\""})
    CHECK(with("\"8\"", devices).ends_with("; it must be from 1 to 1024"));
  CHECK(with("\"8\"", "\"8 GPUs\"").ends_with("is \"8 GPUs\"; write it without a unit"));
  CHECK(with("  \"memory\": {", "  \"peak\": {").ends_with("\"peak\" occurs twice"));
  CHECK(with("\"8\"", "8") ==
        "mine.json: line 33: \"devices_per_node.value\" is neither an object nor text in quotes, such as \"80 GB\"");
  CHECK(with("the usual server", "") == "mine.json: line 33: \"devices_per_node.source\" is empty");
  CHECK(with("mtl-hardware/1", "mtl-hardware/9") ==
        "mine.json: line 2: \"schema\" is \"mtl-hardware/9\"; this version reads mtl-hardware/1");
  CHECK(with("\"fp32\"", "\"bf16\"") == "mine.json: line 7: \"peak.bf16\" occurs twice");
  CHECK(with("  \"memory\": {", "  \"memory\": [").starts_with("mine.json: line 9: "));
  CHECK(refusal_of("{\n").starts_with("mine.json: line 2: byte 3: "));
  CHECK(refusal_of(text + "x").starts_with("mine.json: line 35: byte "));
}
