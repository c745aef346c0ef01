// Operator times from profiles: of equal operands, of similar ones and of others; and files that are not profiles.
#include "planner/operator_times.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "planner/machine.h"
#include "tests/error_of.h"
#include "tests/planner/planner_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::string message_of(const std::string& profile) {
  try {
    times_of(profile);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("operator times: the threads of a CPU are a part of its name") {
  CHECK(times_of(kProfile).threads() == 1);
  CHECK(times_of(replaced(kProfile, "CPU, 1 thread", "CPU, 4 threads")).threads() == 4);
  CHECK(times_of(replaced(kProfile, "CPU, 1 thread", "CPU, 99999999999 threads")).threads() == 1024);
  for (const char* other : {"a GPU", "GPU, 4 threads", "CPU, 4 threads each", "CPU, many threads"})
    CHECK(times_of(replaced(kProfile, "CPU, 1 thread", other)).threads() == 1);
  CHECK(times_of(replaced(kProfile, "CPU, 1 thread", "a\\nGPU")).device().name == "aGPU");
}

TEST_CASE("operators take as long as in the profile, or as the most similar ones") {
  const OperatorTimes times = times_of(kProfile);
  CHECK(times.ms("gemm", "64x64x64 float32, B^T", {2e6, 25e3}) == doctest::Approx(2));
  CHECK(times.ms("gemm", "64x64x64 float32", {2e6, 5e4}) == doctest::Approx(8));  // not transposed
  CHECK(times.ms("gemm", "64x128x64 float32, B^T", {4e6, 5e4}) == doctest::Approx(4));
  CHECK(times.ms("gemm", "64x8x64 float32, B^T", {25e4, 5e3}) == doctest::Approx(0.5));  // like 64x16x64
  CHECK(times.ms("layernorm_forward", "(32, 64) float32", {0, 1e5}) == doctest::Approx(0.5));
  CHECK(times.ms("adamw_step", "", {0, 4e5}) == doctest::Approx(2));
  CHECK(times.ms("copy", "(64) float32", {0, 1.2e6}) == doctest::Approx(6));  // 2.4e6 bytes in 12 ms, of two kinds
  CHECK(times.ms("gemm", "64x16x64 bfloat16, B^T", {5e5, 5e3}) == doctest::Approx(1));  // by its work
}

TEST_CASE(
    "operators without FLOPs take their time for a call's bytes, and calls too short for the clock do not count") {
  const std::string slow = replaced(kProfile, R"("ms": 2, "flops": 0)", R"("ms": 8, "flops": 0)");
  CHECK(times_of(slow).ms("layernorm_forward", "(32, 64) float32", {0, 1e5}) == doctest::Approx(2));
  CHECK(times_of(slow).ms("copy", "(64) float32", {0, 1.2e6}) == doctest::Approx(9));  // 2.4e6 bytes in 18 ms
  // A call without work takes as long as the nearest one.
  CHECK(times_of(kProfile).ms("gemm", "64x0x64 float32, B^T", {0, 0}) == doctest::Approx(1));
  const OperatorTimes without = times_of(replaced(kProfile, R"("calls": 2, "ms": 10)", R"("calls": 0, "ms": 0)"));
  CHECK_FALSE(without.has("adamw_step"));
  CHECK(without.has("gemm"));
  CHECK(without.between_ms() == doctest::Approx(6.0 / 10));
  for (const char* empty : {R"("calls": 0, "ms": 10)", R"("calls": 2, "ms": 0)"})
    CHECK_FALSE(times_of(replaced(kProfile, R"("calls": 2, "ms": 10)", empty)).has("adamw_step"));
}

TEST_CASE("similar operands have sizes of similar digits, and a profile without FLOPs has no fastest FLOPs") {
  const std::string sizes = replaced(replaced(kProfile, "64x64x64 float32, B^T", "90x9x64 float32, B^T"),
                                     "64x16x64 float32, B^T", "990x99x64 float32, B^T");
  // The other row's work is nearer.
  CHECK(times_of(sizes).ms("gemm", "89x9x64 float32, B^T", {6e5, 5e3}) == doctest::Approx(0.6));
  CHECK(times_of(sizes).ms("gemm", "989x90x64 float32, B^T", {2e6, 5e3}) == doctest::Approx(4));
  std::string bytes = kProfile;
  for (const char* flops : {"8e6", "1e6", "4e6"}) bytes = replaced(bytes, cat(R"("flops": )", flops), R"("flops": 0)");
  CHECK(times_of(bytes).most_flops_per_ms() == 0);
  CHECK(times_of(bytes).ms("rope", "", {1e6, 2e6}) == doctest::Approx(2e6 / ((2.4e6 + 2.1e5) / 38)));
}

TEST_CASE("no operator is faster than the fastest in the profile, so bounds hold") {
  const OperatorTimes times = times_of(kProfile);
  CHECK(times.most_flops_per_ms() == doctest::Approx(1e6));
  CHECK(times.most_bytes_per_ms() == doctest::Approx(2e5));
  CHECK(times.ms("gemm", "64x64x64 float32, B^T", {2e6, 8e5}) == doctest::Approx(4));  // by its bytes
  Machine machine{.device = times.device()};
  machine.use(std::make_shared<const OperatorTimes>(times), DType::f32, false);
  CHECK(machine.efficiency_of == "profile");
  CHECK(machine.efficiency.gemm * machine.device.tflops_f32 * 1e9 == doctest::Approx(1e6));
  CHECK(machine.efficiency.memory * machine.device.dram_gbs * 1e6 == doctest::Approx(2e5));
}

TEST_CASE("operators take their FLOPs at the share of their class, or their bytes") {
  // In ms: 1 GFLOP, 1 MB.
  const Machine machine{
      .device = {.name = "test", .dram_gbs = 1, .tflops_16 = 4, .tflops_tf32 = 2, .tflops_f32 = 1},
      .efficiency = {.gemm = 0.5, .attention_forward = 0.25, .attention_backward = 0.125, .memory = 0.5},
      .launch_us = 10};
  const auto ms = [&](OperatorClass kind, Counters work, DType dtype = DType::f32, bool tf32 = false) {
    return machine.work_ms({.operator_class = kind, .dtype = dtype, .work = work}, tf32) - 0.01;
  };
  constexpr Counters kFlops{1e9, 1e6};
  CHECK(ms(OperatorClass::gemm, kFlops) == doctest::Approx(2));
  CHECK(ms(OperatorClass::memory, kFlops) == doctest::Approx(2));
  CHECK(ms(OperatorClass::attention_forward, kFlops) == doctest::Approx(4));
  CHECK(ms(OperatorClass::attention_backward, kFlops) == doctest::Approx(8));
  CHECK(ms(OperatorClass::attention_backward, kFlops, DType::f32, true) == doctest::Approx(4));
  CHECK(ms(OperatorClass::attention_backward, kFlops, DType::bf16) == doctest::Approx(2));
  CHECK(ms(OperatorClass::gemm, {1e9, 3e6}) == doctest::Approx(6));  // by its bytes
  CHECK(machine.best_share() == 0.5);
  CHECK(machine.outside_ms() == 0);
  Machine measured = machine;
  measured.use(std::make_shared<const OperatorTimes>(times_of(kProfile)), DType::bf16, false);
  CHECK(measured.outside_ms() == doctest::Approx(3));
  CHECK(measured.efficiency.attention_backward * 4e9 == doctest::Approx(1e6));
  CHECK(measured.work_ms({.name = "gemm", .operands = "64x64x64 float32, B^T", .work = {2e6, 25e3}}, false) ==
        doctest::Approx(2 + 0.5));
}

TEST_CASE("time between operators and outside of them") {
  const OperatorTimes times = times_of(kProfile);
  CHECK(times.between_ms() == doctest::Approx(6.0 / 12));
  CHECK(times.outside_ms() == doctest::Approx(3));
  const OperatorTimes others =
      times_of(replaced(replaced(kProfile, R"("phase": "communication", "ms": 9)", R"("phase": "report", "ms": 9)"),
                        R"("phase": "forward", "ms": 50)", R"("phase": "forward", "ms": 40)"));
  CHECK(others.between_ms() == 0);  // the clock's error, not less than nothing
  CHECK(others.outside_ms() == doctest::Approx(3 + 4.5));
  CHECK(times.device().dram_gbs == 10);
  CHECK(times.device().tflops_16 == 0.1);
  CHECK(times.device().tflops_tf32 == 0.3);
  CHECK(times.device().source.empty());
  CHECK(times_of(replaced(kProfile, R"("gb_per_s")", R"("source": "a copy", "gb_per_s")")).device().source == "a copy");
  CHECK(times.device().name == "CPU, 1 thread");
  CHECK(times.has_products(DType::f32));
  CHECK_FALSE(times.has_products(DType::bf16));
}

TEST_CASE("other files are not profiles") {
  CHECK(message_of("{}").find("is not a profile; give a file rankN.json") != std::string::npos);
  CHECK(test::error_of([] { OperatorTimes::read("absent.json"); }, Exit::io) ==
        "absent.json: cannot open: No such file or directory");
  for (const char* key : {"\"rows\"", "\"roofline\""})
    CHECK(message_of(replaced(kProfile, key, "\"x\"")).find("is not a profile") != std::string::npos);
  CHECK(message_of("[1]") != "no error");
  CHECK(message_of(replaced(replaced(kProfile, R"("flops": 0, "bytes": 4e5)", R"("flops": 1, "bytes": 4e5)"),
                            R"("flops": 0, "bytes": 2e6)", R"("flops": 1, "bytes": 2e6)"))
            .find("has no operators") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"ms\": 8", "\"ms\": 1e301")).find("ms is 1e+301") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"version\": 1", "\"version\": 2")).find("version 2") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"steps\": 2", "\"steps\": 0")).find("has no operators") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"ms\": 8", "\"ms\": NaN")).find("ms is nan") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"flops\": 8e6", "\"flops\": -1")).find("flops is -1") != std::string::npos);
  CHECK(message_of(replaced(kProfile, "\"calls\": 4, ", "")).find("calls") != std::string::npos);
}
