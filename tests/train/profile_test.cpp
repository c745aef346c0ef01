// Profiles count operators, assign them to phases and layers, and print tables and a trace.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "base/files.h"
#include "device/hardware.h"
#include "device/memory.h"
#include "engine/memory_plan.h"
#include "engine/step_record.h"
#include "kernels/cpu.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/operator_record.h"
#include "tests/gpt_of_size.h"
#include "train/profile_report.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A profiled step: a GEMM and a copy inside a layer, and a copy outside it. Also makes copies that are not profiled.
struct SmallStep {
  Stream stream;
  Profile profile;

  explicit SmallStep(Device device) : stream(device), profile(device) {
    Buffer memory(device, 1 << 16);
    const Tensor a = memory.tensor(DType::f32, {8, 4}), b = memory.tensor(DType::f32, {16, 4}, 1024),
                 c = memory.tensor(DType::f32, {8, 16}, 4096), d = memory.tensor(DType::f32, {8, 16}, 8192);
    Arena scratch(device, "scratch", 1 << 20);
    copy(stream, d, c);  // not counted in the profile
    stream.set_profile(&profile);
    {
      const ProfileRange step(stream, ProfileKind::step, "step", 11);
      {
        const ProfileRange phase(stream, ProfileKind::phase, "forward", 0);
        const ProfileRange layer(stream, ProfileKind::layer, "layer", 3);
        gemm(stream, scratch, c, {a}, {b, true});
        copy(stream, d, c);
        const ProfileRange wait(stream, ProfileKind::communication, "wait");
      }
      copy(stream, d, c);
    }
    stream.set_profile(nullptr);
    copy(stream, d, c);
    profile.finish();
  }
};

const Hardware kSlow{.name = "slow", .dram_gbs = 1, .tflops_16 = 1, .tflops_tf32 = 1, .tflops_f32 = 1e-6};

const ProfileRow& row_of(const std::vector<ProfileRow>& rows, const std::string& phase, const std::string& name) {
  for (const ProfileRow& row : rows) {
    if (row.phase == phase && row.name == name) return row;
  }
  FAIL("no row " << phase << " " << name);
  return rows.front();
}

}  // namespace

TEST_CASE("a profile has the operators of its steps, with their shapes and counts") {
  for (Device device : {Device::cpu, Device::meta}) {
    const SmallStep step(device);
    const std::vector<ProfileEntry>& entries = step.profile.entries();
    REQUIRE(entries.size() == 7);
    CHECK(entries[0].title() == "step 11");
    CHECK(entries[2].title() == "layer 3");
    CHECK(entries[3].name == "gemm");
    CHECK(entries[3].detail == "8x16x4 float32, B^T");
    CHECK(entries[3].work == Counters{2 * 8 * 16 * 4, 4 * (8 * 4 + 16 * 4 + 8 * 16)});
    CHECK(entries[3].parent == 2);
    CHECK(entries[4].name == "copy");
    CHECK(entries[4].detail == "(8, 16) float32");
    CHECK(entries[4].work == Counters{0, 2 * 4 * 8 * 16});
    CHECK(entries[6].parent == 0);
    for (const ProfileEntry& entry : entries) {
      CHECK(std::isfinite(entry.ms()));
      CHECK(entry.ms() >= 0);
      if (entry.parent < 0 || device == Device::meta) continue;
      CHECK(entry.begin_ms >= entries[entry.parent].begin_ms);
      CHECK(entry.end_ms <= entries[entry.parent].end_ms);
    }
    if (device == Device::cpu) CHECK(entries[0].ms() > 0);
  }
}

TEST_CASE("a report sums by phase and operator, and its phases add up to the step") {
  const SmallStep step(Device::cpu);
  const ProfileReport report = report_profile(step.profile, kSlow, false);
  CHECK(report.first_step == 11);
  CHECK(report.steps == 1);
  double phases = 0;
  std::string names;
  for (const ProfilePhase& phase : report.phases) {
    phases += phase.ms;
    names += phase.name + " ";
  }
  CHECK(names == "forward communication other ");
  CHECK(report.ms > 0);
  CHECK(phases == doctest::Approx(report.ms));
  CHECK(row_of(report.rows, "forward", "copy").calls == 1);
  CHECK(row_of(report.rows, "other", "copy").calls == 1);
  CHECK(report.phases[0].operators_ms ==
        row_of(report.rows, "forward", "gemm").ms + row_of(report.rows, "forward", "copy").ms);
  CHECK(row_of(report.by_operator(), "", "copy").calls == 2);
  const ProfileRow& product = row_of(report.rows, "forward", "gemm");
  CHECK(product.is_compute_bound);
  CHECK(product.bound_ms == doctest::Approx(2 * 8 * 16 * 4 / 1e6 * 1e3));
  const ProfileReport in_tf32 = report_profile(step.profile, kSlow, true);
  CHECK(row_of(in_tf32.rows, "forward", "gemm").bound_ms < product.bound_ms / 1e3);
  CHECK(row_of(report.rows, "other", "copy").bound_ms == doctest::Approx(2 * 4 * 8 * 16 / 1e9 * 1e3));
  const Json json = Json::parse(profile_json(report).dump(2));
  CHECK(json.at("rows").as_array().size() == 3);
  CHECK(json.at("operators").as_array().size() == 2);
  CHECK(profile_text(report, "title").find("8x16x4 float32, B^T") != std::string::npos);
}

TEST_CASE("a trace is JSON with a process per rank and a thread per kind of entry") {
  SmallStep step(Device::cpu);
  step.profile.kernels.push_back({"sum_rows", 3, 0.25, 0.5});
  const std::string trace = trace_file({trace_events(step.profile, 0, "a"), "", trace_events(step.profile, 2, "b")});
  const Json parsed = Json::parse(trace);
  int complete = 0, kernels = 0;
  for (const Json& event : parsed.at("traceEvents").as_array()) {
    const std::int64_t rank = event.at("pid").as_int();
    CHECK((rank == 0 || rank == 2));
    if (event.at("ph").as_string() != "X") continue;
    ++complete;
    CHECK(event.at("dur").as_number() >= 0);
    if (event.at("cat").as_string() != "kernel") continue;
    ++kernels;
    CHECK(event.at("ts").as_number() == 250);
    CHECK(event.at("dur").as_number() == 250);
  }
  CHECK(complete == 2 * 8);
  CHECK(kernels == 2);
  CHECK(profile_text(report_profile(step.profile, kSlow, false), "t").find("gemm                       sum_rows") !=
        std::string::npos);
}

/// Two iterations with these times: a forward pass with a layer of three entries, an update, and an operator outside.
Profile with_times() {
  Stream stream(Device::meta);
  Profile out(Device::meta);
  stream.set_profile(&out);
  const auto range = [&](ProfileKind kind, const char* name, std::int64_t number, double begin, double end) {
    return std::make_unique<ProfileRange>(
        stream, ProfileEntry{.kind = kind, .name = name, .number = number, .begin_ms = begin, .end_ms = end});
  };
  const auto op = [&](const char* name, const char* detail, Counters work, double begin, double end) {
    stream.count(work.flops, work.bytes);
    const ProfileRange entry(
        stream,
        ProfileEntry{.kind = ProfileKind::op, .name = name, .detail = detail, .begin_ms = begin, .end_ms = end});
  };
  {
    const auto step = range(ProfileKind::step, "step", 5, 0, 16);
    {
      const auto forward = range(ProfileKind::phase, "forward", 0, 0, 8);
      const auto layer = range(ProfileKind::layer, "layer", 3, 0, 7);
      op("gemm", "8x4", {4e6, 1e3}, 0, 2);
      { const auto wait = range(ProfileKind::communication, "wait", -1, 2, 3); }
      op("attention_forward", "(8)", {2e6, 1e3}, 3, 6);
      op("copy", "(8)", {0, 4e6}, 6, 6.5);
    }
    op("copy", "(8)", {0, 8e6}, 9, 10);
    const auto update = range(ProfileKind::phase, "optimizer", -1, 12, 16);
    op("adamw", "", {0, 6e6}, 13, 15);
  }
  const auto step = range(ProfileKind::step, "step", 6, 16, 18);
  op("gemm", "8x4", {4e6, 1e3}, 16, 17);
  stream.set_profile(nullptr);
  out.kernels = {
      {"small", 3, 0.5, 1}, {"large", 3, 1, 2}, {"small", 3, 2, 2.25}, {"lost", -1, 0, 4}, {"step", 0, 5, 6}};
  return out;
}

TEST_CASE("a report and a trace of known times, whole") {
  const Profile profile = with_times();
  CHECK(profile_json(report_profile(profile, kSlow, true)).dump() + "\n" == read_file("golden/profile/times.json"));
  CHECK(trace_file({trace_events(profile, 2, "b")}) == read_file("golden/profile/times_trace.json"));
}

TEST_CASE("operators are named by their functions, kernels without parameters and anonymous namespaces") {
  CHECK(function_name<cpu::layernorm_forward>() == "layernorm_forward");
  CHECK(short_kernel_name("void mtl::cuda::(anonymous namespace)::sum_rows<float, (int)4>(float*, int)") ==
        "mtl::cuda::sum_rows<float, (int)4>");
  CHECK(short_kernel_name("memset") == "memset");
}

TEST_CASE("hardware is found by CUDA's names, and similar names do not match") {
  const auto name_of = [](const char* name) {
    const Hardware* found = find_hardware(name);
    return found == nullptr ? "none" : found->name;
  };
  CHECK(name_of("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(name_of("NVIDIA H100 PCIe") == "H100-PCIe");
  CHECK(name_of("NVIDIA H200") == "H200");
  CHECK(name_of("NVIDIA A100-SXM4-80GB") == "A100");
  CHECK(name_of("NVIDIA A100-PCIE-40GB") == "A100-40GB");
  CHECK(name_of("NVIDIA GH200 480GB") == "none");
  CHECK(name_of("NVIDIA GB200") == "none");
  CHECK(name_of("NVIDIA H100 NVL") == "none");
  CHECK(name_of("Tesla V100") == "none");
  for (const Hardware& known : known_hardware()) CHECK(find_hardware(known.name) == &known);
}

TEST_CASE("one operator normalizes and rotates q and k; a model with only one of them keeps that operator") {
  for (const bool is_normalized : {false, true}) {
    for (const bool is_rotary : {false, true}) {
      GptConfig config = qwen_of_size({.vocab = 61, .layers = 2, .hidden = 32, .heads = 4, .positions = 12});
      config.qk_norm = is_normalized;
      if (!is_rotary) config.position_embedding = PositionEmbedding::learned;
      RunShape shape;
      shape.seq_length = 8;
      shape.padded_vocab = config.vocab_size;
      const StepRecord step = record_step(config, {}, shape);
      const auto calls = [&](const char* name) {
        double out = 0;
        for (std::size_t i = 0; i < step.weights.size(); ++i)
          out += step.profile.entries()[i].name == name ? step.weights[i] : 0;
        return out;
      };
      for (const std::string pass : {"forward", "backward"}) {
        CAPTURE(pass);
        CHECK(calls(("qk_norm_rotary_" + pass).c_str()) == (is_normalized && is_rotary ? 2 : 0));
        CHECK(calls(("head_norm_" + pass).c_str()) == (is_normalized && !is_rotary ? 4 : 0));
        CHECK(calls(("rotary_" + pass).c_str()) == (!is_normalized && is_rotary ? 2 : 0));
      }
    }
  }
}

TEST_CASE("the operators of a step on meta count what its plan counts, for any number of micro-batches") {
  const GptConfig config = gpt_of_size({.vocab = 61, .layers = 2, .hidden = 24, .heads = 3, .positions = 12});
  for (std::int64_t micro_batches : {1, 2, 5}) {
    RunShape shape;
    shape.seq_length = 8;
    shape.micro_batches = micro_batches;
    shape.padded_vocab = config.vocab_size;
    const StepRecord step = record_step(config, {}, shape);
    const ProfileReport report = report_profile(step.profile, kSlow, false, step.weights);
    Counters sum;
    for (const ProfileRow& row : report.rows) {
      sum.flops += row.work.flops;
      sum.bytes += row.work.bytes;
    }
    const MemoryPlan plan = plan_training(config, {}, shape);
    CHECK(sum.flops > 0);
    CHECK(sum.flops == doctest::Approx(plan.step.flops));
    CHECK(sum.bytes == doctest::Approx(plan.step.bytes));
    CHECK(row_of(report.rows, "optimizer", "adamw_step").calls >= 1);
  }
}
