// Log lines: equal to Megatron's, character for character.
#include "train/log_line.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mtl;

TEST_CASE("log line: Megatron's fields, then mtl's") {
  IntervalReport report;
  report.iteration = 100;
  report.train_iterations = 500000;
  report.consumed_samples = 1600;
  report.elapsed_ms_per_iteration = 597.04;
  report.learning_rate = 4.6875e-7;
  report.global_batch_size = 16;
  report.lm_loss = 10.98765432;
  report.loss_scale = 4294967296.0;
  report.grad_norm = 2.3456;
  report.skipped_iterations = 1;
  report.tokens_per_second = 27441.06;
  std::string head =
      " [2026-11-21 12:00:00] iteration      100/  500000 | consumed samples:         1600 | "
      "elapsed time per iteration (ms): 597.0 |";
  std::string middle =
      " learning rate: 4.687500E-07 | global batch size:    16 | lm loss: 1.098765E+01 | "
      "loss scale: 4294967296.0 | grad norm: 2.346 | number of skipped iterations:   1 | "
      "number of nan iterations:   0 | tokens per second: 27441.1 |";
  CHECK(log_line(report, "2026-11-21 12:00:00") == head + middle);
  report.tflops_per_device = 61.25;
  report.mfu_a = 0.41449;
  report.mfu_b = 0.5;
  report.data_stall_ms = 0.26;
  CHECK(log_line(report, "2026-11-21 12:00:00") == head + " throughput per GPU (TFLOP/s/GPU): 61.2 |" + middle +
                                                       " MFU A: 41.4% | MFU B: 50.0% | data stall (ms): 0.3 |");
  report.num_zeros = 12345678901;
  report.params_norm = 1234.56789;
  CHECK(log_line(report, "now")
            .find(" grad norm: 2.346 | num zeros: 12345678901 | params norm: 1234.568 | number of "
                  "skipped iterations:   1 |") != std::string::npos);
}

TEST_CASE("log line: throughput and MFU of small models keep significant digits") {
  IntervalReport report;
  const auto shows = [&](double tflops, double mfu, const std::string& text) {
    report.tflops_per_device = tflops;
    report.mfu_a = report.mfu_b = mfu;
    return log_line(report, "now").find(text) != std::string::npos;
  };
  CHECK(shows(0.00123456, 0.5, "(TFLOP/s/GPU): 0.00123 |"));
  CHECK(shows(0.3, 0.5, "(TFLOP/s/GPU): 0.300 |"));
  CHECK(shows(0.99999, 0.5, "(TFLOP/s/GPU): 1.000 |"));
  CHECK(shows(1.26, 0.5, "(TFLOP/s/GPU): 1.3 |"));
  CHECK(shows(1e-300, 0.5, "(TFLOP/s/GPU): 0.000000000000 |"));
  CHECK(shows(0, 0, "(TFLOP/s/GPU): 0.0 |"));
  CHECK(shows(0, 0, "MFU A: 0.0% | MFU B: 0.0% |"));
  CHECK(shows(1, 0.000456, "MFU A: 0.0456% | MFU B: 0.0456% |"));
}

TEST_CASE("log line: absent figures have no field") {
  std::string line = log_line(IntervalReport{}, "now");
  CHECK(line.find("lm loss") == std::string::npos);
  CHECK(line.find("grad norm") == std::string::npos);
  CHECK(line.find("num zeros") == std::string::npos);
  CHECK(line.find("params norm") == std::string::npos);
  CHECK(line.find("MFU") == std::string::npos);
  CHECK(line.find("loss scale: 1.0 |") != std::string::npos);
}

TEST_CASE("log line: shares of lost updates follow MFU, if they exist") {
  IntervalReport report;
  CHECK(log_line(report, "now").find("lost updates") == std::string::npos);
  report.mfu_b = 0.5;
  report.lost_updates = 0.00012345;
  report.lost_updates_copy = 0.625;
  CHECK(log_line(report, "now").find(" MFU B: 50.0% | lost updates: 0.0123% | lost updates of the copy: 62.5% |") !=
        std::string::npos);
}

TEST_CASE("validation line: is enclosed in lines of dashes that are one character longer") {
  ValidationReport report{.iteration = 1000, .loss = 3.0, .samples_before = 1440, .samples = 160};
  std::string text =
      " validation loss at iteration 1000 | lm loss value: 3.000000E+00 | lm loss PPL: 2.008554E+01 | "
      "validation samples 1,441 to 1,600 | ";
  std::string dashes(text.size() + 1, '-');
  CHECK(log_line(report) == dashes + "\n" + text + "\n" + dashes);
  report.is_final = true;
  report.name = "test";
  CHECK(log_line(report).find("\n validation loss at iteration 1000 on test set | lm loss value: ") !=
        std::string::npos);
  CHECK(log_line(report).find(" | test samples 1,441 to 1,600 | \n") != std::string::npos);
  report = {.iteration = 5, .set = "web", .loss = 3, .samples = 9};
  CHECK(log_line(report).find("\n validation-web loss at iteration 5 | lm loss value: 3.0") != std::string::npos);
  CHECK(log_line(report).find(" | validation samples 1 to 9 | \n") != std::string::npos);
}

TEST_CASE("validation: the perplexity of a loss above 20 is capped, as in Megatron") {
  CHECK(ValidationReport{.loss = 30}.ppl() == doctest::Approx(4.851652e8));
}

TEST_CASE("log line: NaN prints as NaN without a sign") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double value : {nan, -nan}) {
    IntervalReport report;
    report.lm_loss = report.grad_norm = value;
    CHECK(log_line(report, "now").find(" lm loss: NAN | loss scale: 1.0 | grad norm: nan |") != std::string::npos);
    const ValidationReport validation{.iteration = 3, .loss = value};
    CHECK(std::isnan(validation.ppl()));
    CHECK(log_line(validation).find("lm loss value: NAN | lm loss PPL: NAN | ") != std::string::npos);
  }
}
