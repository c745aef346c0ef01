// cuBLASLt calls: algorithms are measured once per shape, and an epilogue is computed separately where this is faster.
// The emulated library simulates the algorithms' times.
#include "kernels/cuda/cublas_lt.h"

#include "device/graph.h"
#include "kernels/gemm.h"
#include "run/flops.h"
#include "tests/error_of.h"
#include "tests/kernels/reference.h"
#include "tests/mirror/queue.h"

using namespace mtl;
using namespace mtl::test;
using emulated::product_counts;
using emulated::ProductCounts;

namespace {

/// Sets the library's simulated times while it exists.
struct Times {
  explicit Times(const emulated::ProductTimes& times) { emulated::set_product_times(times); }
  ~Times() { emulated::set_product_times({}); }
  Times(const Times&) = delete;
};

/// Limits how many calls of each algorithm succeed while it exists.
struct Limits {
  explicit Limits(const emulated::ProductLimits& limits) { emulated::set_product_limits(limits); }
  ~Limits() { emulated::set_product_limits({}); }
  Limits(const Limits&) = delete;
};

constexpr const char* kGradientKey = "gemm 32x48x70 tn float32 -> float32, accumulated, aligned to 256 256 256 256";
constexpr const char* kBiasGradientKey =
    "gemm 32x48x70 tn float32 -> float32, accumulated, bias gradient, aligned to 256 256 256 256";

/// A weight gradient C (M, N) += dy^T x, on its own stream.
struct Gradient {
  static constexpr std::int64_t m = 32, n = 48, k = 70;
  Stream stream{kDevice};
  Arena scratch{kDevice, "scratch", std::size_t{40} << 20};
  Owned dy = random_tensor(DType::f32, {k, m}, 1), x = random_tensor(DType::f32, {k, n}, 2);
  Owned c = random_tensor(DType::f32, {m, n}, 3), dbias = random_tensor(DType::f32, {m}, 4);
  const std::vector<double> c_before = c.values(), dbias_before = dbias.values();

  /// Computes one GEMM; returns C and dbias.
  std::vector<double> run(bool with_dbias = false) {
    Epilogue epilogue;
    if (with_dbias) epilogue.dbias = {dbias, GradMode::accumulate};
    gemm(stream, scratch, c, transposed(dy), {x}, GradMode::accumulate, epilogue);
    std::vector<double> out = c.values();
    const std::vector<double> sums = dbias.values();
    out.insert(out.end(), sums.begin(), sums.end());
    return out;
  }
  std::vector<double> expected(bool with_dbias = false) const {
    const std::vector<double> left = dy.values(), right = x.values();
    std::vector<double> out = c_before, sums = dbias_before;
    for (std::size_t row = 0; row < k; ++row) {
      for (std::size_t i = 0; i < m; ++i) {
        if (with_dbias) sums[i] += left[row * m + i];
        for (std::size_t j = 0; j < n; ++j) out[i * n + j] += left[row * m + i] * right[row * n + j];
      }
    }
    out.insert(out.end(), sums.begin(), sums.end());
    return out;
  }
};

}  // namespace

TEST_CASE("cublas_lt: the fastest algorithm is chosen once per shape, and measuring adds nothing to C") {
  Gradient first;
  const Times times({.whole = 2000, .halves = 1000});
  const ProductCounts before = product_counts();
  CHECK(rms_relative(first.run().data(), first.expected()) < 1e-6);
  const ProductCounts after = product_counts();
  CHECK(after.searches == before.searches + 1);
  REQUIRE(first.stream.choices().table().size() == 1);
  CHECK(first.stream.choices().table().begin()->first == kGradientKey);
  CHECK(first.stream.choices().table().begin()->second == "2 split=2 reduction=2");
  first.run();
  CHECK(product_counts().searches == after.searches);
  CHECK(product_counts().products == after.products + 1);
  CHECK(product_counts().halves == after.halves + 1);
}

TEST_CASE("cublas_lt: the first candidate is not measured while the clocks of an idle GPU rise") {
  Gradient gradient;
  const Times times({.whole = 1000, .halves = 1500, .ramp = 1});
  gradient.run();
  CHECK(gradient.stream.choices().find(kGradientKey) == "1");
}

TEST_CASE("cublas_lt: a GPU's peak rate is that of a product at full clocks, without the host's work") {
  const Times times({.whole = 1000, .ramp = 1, .only_time = true});
  const double expected = 2e-12 * 4096 * 4096 * 4096 / 1000;
  CHECK(measure_peak_tflops(kDevice, 2, DType::bf16) / expected == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("cublas_lt: a stream's choices overrule the measurements, and reproduce the bits") {
  Gradient first, repeated, measured;
  std::vector<double> bits;
  {
    const Times times({.whole = 2000, .halves = 1000});
    bits = first.run();
  }
  repeated.stream.choices().add(first.stream.choices().table());
  const std::int64_t searches = product_counts().searches;
  CHECK(repeated.run() == bits);
  CHECK(product_counts().searches == searches);
  CHECK(measured.run() != bits);  // the unsplit sum is faster now
  CHECK(product_counts().searches == searches + 1);
}

TEST_CASE("cublas_lt: a choice that the library refuses is measured again") {
  for (const char* choice : {"", "apart", "x", "7", "2", "2 split=3 reduction=2", "1 tile=5", "1 reduction=1",
                             "2 split=2 reduction=2 cluster=1"}) {
    CAPTURE(choice);
    Gradient gradient;
    gradient.stream.choices().set(kGradientKey, choice);
    CHECK(rms_relative(gradient.run().data(), gradient.expected()) < 1e-6);
    CHECK(gradient.stream.choices().table().begin()->second == "1");
  }
}

TEST_CASE("cublas_lt: an algorithm that fails while it is measured, or right after, is not chosen") {
  const Times times({.whole = 2000, .halves = 1000});
  for (const std::int64_t halves : {0, 1}) {
    CAPTURE(halves);
    Gradient gradient;
    const Limits limits({.halves = halves});
    CHECK(rms_relative(gradient.run(true).data(), gradient.expected(true)) < 1e-6);
    for (const char* key : {kGradientKey, kBiasGradientKey}) {
      CHECK(gradient.stream.choices().find(key) == "1");
      const std::string refusal =
          cat(key, " refuses algorithm 2 split=2 reduction=2: refused by the emulated library (status 15)");
      const std::vector<std::string> refusals = gradient.stream.choices().refusals();  // a warning of the run
      CHECK(std::count(refusals.begin(), refusals.end(), refusal) == 1);
    }
  }
}

TEST_CASE("cublas_lt: the next algorithm takes the place of one that fails to launch") {
  const Times times({.whole = 2000, .halves = 1000});
  Gradient stored, measured;
  {
    stored.stream.choices().set(kGradientKey, "2 split=2 reduction=2");  // as from a checkpoint
    const Limits limits({.halves = 0});
    CHECK(rms_relative(stored.run().data(), stored.expected()) < 1e-6);
    CHECK(stored.stream.choices().find(kGradientKey) == "1");
  }
  measured.run();
  REQUIRE(measured.stream.choices().find(kGradientKey) == "2 split=2 reduction=2");
  const std::vector<double> once = measured.c.values();
  const Limits limits({.halves = 0});
  const std::vector<double> twice = measured.run();
  for (std::size_t i = 0; i < once.size(); ++i)
    CHECK(twice[i] - once[i] == doctest::Approx(once[i] - measured.c_before[i]).epsilon(1e-3));
  CHECK(measured.stream.choices().find(kGradientKey) == "1");
  const std::int64_t products = product_counts().products;
  measured.run();
  CHECK(product_counts().products == products + 1);  // the failed algorithm is not tried again
}

TEST_CASE("cublas_lt: an epilogue that fails to launch runs after the product") {
  Gradient gradient;
  gradient.stream.choices().set(kBiasGradientKey, "1");
  const Limits limits({.fused = 0});
  CHECK(rms_relative(gradient.run(true).data(), gradient.expected(true)) < 1e-6);
  CHECK(gradient.stream.choices().find(kGradientKey) == "1");
}

TEST_CASE("cublas_lt: if every algorithm fails, the error names the product, the algorithms and a remedy") {
  Gradient gradient;
  const Limits limits({.whole = 0, .halves = 0});
  CHECK(test::error_of([&] { gradient.run(); }) ==
        cat("cuBLASLt cannot launch ", kGradientKey,
            "; it tried algorithm 1: refused by the emulated library (status 15); algorithm 2 split=2 reduction=2: "
            "refused by the emulated library (status 15); to see the reasons, run with CUBLASLT_LOG_LEVEL=2, and try "
            "another version of cuBLAS 13"));
}

TEST_CASE("cublas_lt: a product that fails because of an earlier kernel's fault reports that fault") {
  Gradient gradient;
  Owned product(DType::f32, {Gradient::k, Gradient::k});
  const auto run = [&] { gemm(gradient.stream, gradient.scratch, product, {gradient.dy}, transposed(gradient.dy)); };
  run();
  const std::vector<double> expected = product.values();
  mirror::break_device();
  const std::string error = test::error_of(run);
  mirror::repair_device();
  CHECK(error == "GPU: querying a capture failed: an illegal memory access was encountered");
  run();
  CHECK(product.values() == expected);
}

TEST_CASE("cublas_lt: the workspace is aligned, whatever lies below it in scratch memory, and planned so") {
  Gradient gradient;
  Stream dry(Device::meta, 1, kDevice);
  Arena plan(Device::meta, "scratch", 0);
  for (const std::int64_t below : {1, 64, 65, 256}) {
    CAPTURE(below);
    gradient.scratch.make(DType::u8, {below});
    plan.make(DType::u8, {below});
    CHECK(rms_relative(gradient.run().data(), gradient.expected()) < 1e-6);
    gradient.c = random_tensor(DType::f32, {Gradient::m, Gradient::n}, 3);
    gemm(dry, plan, gradient.c, transposed(gradient.dy), {gradient.x}, GradMode::accumulate);
    CHECK(plan.peak() == gradient.scratch.peak());
    CHECK(plan.used() == gradient.scratch.used());
  }
}

TEST_CASE("cublas_lt: nothing is measured or stored while a graph is captured") {
  Gradient gradient;
  const Times times({.whole = 2000, .halves = 1000});
  Graph graph;
  const Tensor c_on_device = gradient.c, dy = gradient.dy, x = gradient.x;
  graph.capture(gradient.stream, [&] {
    gemm(gradient.stream, gradient.scratch, c_on_device, transposed(dy), {x}, GradMode::accumulate);
  });
  graph.launch(gradient.stream);
  gradient.stream.synchronize();
  const std::vector<double> c = gradient.c.values();
  std::vector<double> expected = gradient.expected();
  expected.resize(c.size());
  CHECK(rms_relative(c.data(), expected) < 1e-6);
  CHECK(gradient.stream.choices().table().empty());  // a later run measures
}

TEST_CASE("cublas_lt: the bias gradient is fused with the product, or separate if that is faster") {
  {
    Gradient fused;
    const std::int64_t before = product_counts().bias_gradients;
    CHECK(rms_relative(fused.run(true).data(), fused.expected(true)) < 1e-6);
    CHECK(product_counts().bias_gradients > before);
  }
  Gradient separate;
  const Times times({.epilogue = 3000});
  CHECK(rms_relative(separate.run(true).data(), separate.expected(true)) < 1e-6);
  const std::int64_t measured = product_counts().bias_gradients;
  separate.run(true);
  CHECK(product_counts().bias_gradients == measured);
  CHECK(separate.stream.choices().find(kBiasGradientKey) == "apart");
}

TEST_CASE("cublas_lt: uses TF32 if the stream allows it, only in fp32") {
  for (const bool tf32 : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Stream stream(kDevice);
      stream.set_tf32(tf32);
      Arena scratch(kDevice, "scratch", std::size_t{40} << 20);
      Owned a = random_tensor(dtype, {8, 16}, 1), b = random_tensor(dtype, {16, 8}, 2), c(dtype, {8, 8});
      const ProductCounts before = product_counts();
      gemm(stream, scratch, c, {a}, {b});
      CHECK((product_counts().tf32 > before.tf32) == (tf32 && dtype == DType::f32));
      CHECK(product_counts().products > before.products);
    }
  }
}
