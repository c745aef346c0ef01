// The text and JSON of profiles and rooflines: every figure in its place.
#include <doctest/doctest.h>

#include "base/files.h"
#include "base/str.h"
#include "device/hardware.h"
#include "engine/rank_plans.h"
#include "run/flops.h"
#include "run/run_plan.h"
#include "tests/gpt_of_size.h"
#include "train/profile_report.h"
#include "train/roofline.h"

using namespace mtl;

namespace {

/// Every figure differs.
ProfileReport two_steps() {
  ProfileReport report;
  report.hardware = {
      .name = "tiny", .dram_gbs = 11, .tflops_16 = 2, .tflops_tf32 = 3, .tflops_f32 = 4, .source = "a test"};
  report.first_step = 7;
  report.steps = 2;
  report.ms = 40;
  report.phases = {{"forward", 20, 16}, {"other", 10, 2}};
  report.rows = {{"forward", "gemm", "8x4", 6, 12, {3e9, 5e6}, 3, true},
                 {"backward", "gemm", "4x8", 4, 4, {1e9, 2e6}, 1.5, false},
                 {"forward", "copy", "(8)", 2, 8, {0, 6e6}, 2, false}};
  report.kernels = {{"gemm", "mma", 3, 5}};
  return report;
}

std::string golden(const char* name) { return read_file(cat("golden/profile/", name)); }

}  // namespace

TEST_CASE("profile text: figures are per step, in tables by phase, operator, kernel and operands") {
  CHECK(profile_text(two_steps(), "title") == golden("two_steps.txt"));
  CHECK(profile_json(two_steps()).dump(2) + "\n" == golden("two_steps.json"));
}

TEST_CASE("profile text: rates that the hardware lacks are left out, and a report without time has no shares") {
  ProfileReport report;
  report.hardware = {.name = "bare", .dram_gbs = 1, .source = "x"};
  report.rows = {{"forward", "gemm", "", 1, 0, {1, 1}, 0, false}};
  CHECK(profile_text(report, "title") == golden("no_rates.txt"));
  CHECK(profile_json(report).at("rows").dump() ==
        R"([{"operator": "gemm", "phase": "forward", "calls": 1.0, "ms": 0.0, "flops": 1.0, "bytes": 1.0, )"
        R"("bound_ms": 0.0, "bound_by": "memory"}])");
}

TEST_CASE("roofline text: the bound, both utilizations and the pieces of the output layer") {
  const Roofline roofline{.report = two_steps(),
                          .rank = 3,
                          .step_ms = 8,
                          .tokens_per_second = 12345.6,
                          .mfu_a = 0.41,
                          .mfu_b = 0.52,
                          .logits_rows = 1024,
                          .logits_bytes = 4096000};
  CHECK(roofline_text(roofline) == golden("roofline.txt"));
  Json expected = profile_json(two_steps());
  expected.set("rank", 3).set("bound_ms", 8.0).set("tokens_per_second", 12345.6).set("mfu_a", 0.41).set("mfu_b", 0.52);
  expected.set("logits_rows", 1024).set("logits_bytes", 4096000);
  CHECK(roofline_json(roofline).dump() == expected.dump());
}

TEST_CASE("roofline: the slowest rank bounds the step of all ranks") {
  const GptConfig config = test::gpt_of_size({.vocab = 8000, .layers = 2, .hidden = 64, .heads = 4, .positions = 64});
  TrainOptions options;
  options.parallel.world = options.parallel.pipeline = 2;
  options.data.seq_length = 64;
  options.batch.micro_batch_size = 2;
  options.batch.global_batch_size = 8;
  options.dry_run = true;
  Hardware hardware = *find_hardware("H100");
  const Roofline bound = predict_step(options, config, hardware);
  CHECK(bound.rank == 1);  // with the output layer
  CHECK(bound.step_ms == bound.report.bound_ms());
  CHECK(bound.tokens_per_second == doctest::Approx(8 * 64 / (bound.step_ms * 1e-3)));
  const double peak = 2 * 1e12 * hardware.tflops_f32;
  CHECK(bound.mfu_a == doctest::Approx(flops_per_token_a(config, 64) * bound.tokens_per_second / peak));
  CHECK(bound.mfu_b == doctest::Approx(flops_per_token_b(config, 64) * bound.tokens_per_second / peak));
  CHECK(bound.logits_bytes == bound.logits_rows * 8064 * 4);
  options.tf32 = true;
  CHECK(predict_step(options, config, hardware).step_ms < bound.step_ms);
}
