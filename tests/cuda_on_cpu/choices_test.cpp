// Measured choices in complete runs: a checkpoint records them, so a resumed run produces the same bits even if other
// algorithms have become faster. A file saves the next run from measuring again.
#include <doctest/doctest.h>

#include "kernels/cuda/cublas_lt.h"
#include "tests/mirror/small_run.h"

using namespace mtl;
using namespace mtl::test;
using emulated::product_counts;

namespace {

constexpr emulated::ProductTimes kWholeIsFast{.whole = 1000, .halves = 2000},
    kHalvesAreFast{.whole = 2000, .halves = 1000};

/// Two steps before and after an interruption, without validation.
TrainOptions short_run(const std::string& data, const std::string& save) {
  TrainOptions options = options_on(Device::cuda, data, save);
  options.batch.train_iters = 4;
  options.batch.eval_iters = 0;
  return options;
}

/// Interrupts a run after iteration 2 and resumes it; returns its logged metrics. The simulated times are `first`
/// before the interruption, and `then` after it.
std::vector<std::string> metrics_of(const TrainOptions& whole, const emulated::ProductTimes& first,
                                    const emulated::ProductTimes& then) {
  emulated::set_product_times(first);
  TrainOptions part = whole;
  part.checkpoint.exit_interval = 2;
  CHECK(run(part) == Exit::ok);
  emulated::set_product_times(then);
  CHECK(run(whole) == Exit::ok);
  emulated::set_product_times({});
  return metrics_in(whole.logging.log_jsonl);
}

}  // namespace

TEST_CASE("choices: a resumed run uses its checkpoint's algorithms, whatever the measurements") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto metrics_with = [&](const std::string& name, const emulated::ProductTimes& first,
                                const emulated::ProductTimes& then) {
    return metrics_of(short_run(scratch / "data", scratch / name), first, then);
  };
  const std::vector<std::string> whole = metrics_with("whole", kWholeIsFast, kWholeIsFast);
  const std::vector<std::string> halves = metrics_with("halves", kHalvesAreFast, kHalvesAreFast);
  REQUIRE(whole.size() >= 4);
  REQUIRE(whole != halves);  // the algorithms' results differ in some bits
  const std::int64_t before = product_counts().halves;
  CHECK(metrics_with("whole, then halves", kWholeIsFast, kHalvesAreFast) == whole);
  CHECK(product_counts().halves > before);  // measured, but not chosen
  CHECK(metrics_with("halves, then whole", kHalvesAreFast, kWholeIsFast) == halves);
}

TEST_CASE("choices: those of another GPU or library are dropped") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  TrainOptions options = short_run(scratch / "data", scratch / "run");
  const std::string file = options.tuning_cache = scratch / "cache/choices.json";
  emulated::set_product_times(kHalvesAreFast);
  CHECK(run(options) == Exit::ok);
  const std::string written = read_file(file);
  REQUIRE(written.find("2 split=2 reduction=2") != std::string::npos);
  const std::size_t context = written.find("cuBLASLt 130000");
  REQUIRE(context != std::string::npos);

  const auto searches_of = [&](const std::string& name) {
    TrainOptions next = short_run(scratch / "data", scratch / name);
    next.tuning_cache = file;
    const std::int64_t before = product_counts().searches;
    CHECK(run(next) == Exit::ok);
    return product_counts().searches - before;
  };
  const std::int64_t known = searches_of("next");
  std::string other = written;
  other.replace(context, 15, "cuBLASLt 120000");
  write_file_atomic(file, other);
  CHECK(searches_of("other") > known);
  CHECK(read_file(file).find("cuBLASLt 120000") != std::string::npos);  // both are kept
  CHECK(read_file(file).find("cuBLASLt 130000") != std::string::npos);
  emulated::set_product_times({});
}
