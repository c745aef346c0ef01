// Shared by the mirror's operators for the device cuda. Each operator makes the device memory accessible and calls the
// cpu's operator. All operands must be in device memory. Workspaces are slightly larger than on the cpu, so that a plan
// made for the wrong device does not fit.
#pragma once

#include <tuple>

#include "kernels/cpu.h"
#include "kernels/cuda.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::mirror {

inline constexpr std::int64_t kMoreWork = 192;

/// Checks that every operand is in device memory.
struct Operands {
  static void check(const Tensor& tensor) {
    if (tensor.exists()) require_inside(tensor.raw(), tensor.bytes());
  }
  static void check(const StepState* state) {
    if (state != nullptr) require_inside(state, sizeof(StepState));
  }
  static void check(const Grad& grad) { check(grad.tensor); }
  static void check(const Operand& operand) { check(operand.tensor); }
  static void check(const RowMap& rows) { check(rows.samples); }
  static void check(const ResidualSum& sum) { check_all(sum.residual, sum.branch, sum.bias, sum.rows); }
  static void check(const Epilogue& e) { check_all(e.bias, e.aux, e.dbias); }
  static void check(const HeadSlice& slice) { check(slice.tensor); }
  static void check(const Qkv& qkv) { check_all(qkv.q, qkv.k, qkv.v); }
  static void check(const AttentionInput& in) { check_all(in.qkv, in.rows, in.past, in.document_start); }
  static void check(const KvCache& cache) { check_all(cache.keys, cache.values, cache.lengths); }
  static void check(const LayerNormCache& cache) { check_all(cache.x, cache.mean, cache.rstd); }
  static void check(const RmsNormCache& cache) { check_all(cache.x, cache.rstd); }
  static void check(const LayerNormGrads& grads) { check_all(grads.dx, grads.dgamma, grads.dbeta); }
  static void check(const AdamWRange& range) {
    check_all(range.param, range.grad, range.exp_avg, range.exp_avg_sq, range.copy);
  }
  // These arguments have no tensors.
  static void check(VocabSlice) {}
  static void check(GradMode) {}
  static void check(Activation) {}
  static void check(const RotaryFrequencies&) {}
  static void check(bool) {}
  static void check(const Dropout&) {}
  static void check(const AdamWOptions&) {}
  static void check(double) {}
  static void check(std::int64_t) {}

  template <class... Parts>
  static void check_all(const Parts&... parts) {
    (check(parts), ...);
  }
};

/// Returns the part of a workspace that the cpu's operator expects.
inline Tensor cpu_part(const Tensor& work) { return work.exists() ? work.flat(0, work.numel() - kMoreWork) : work; }

template <auto on_cpu, class... Args>
void forward(Stream& stream, const Args&... args) {
  Operands::check_all(args...);
  enqueue(stream.handle(), [threads = stream.threads(), kept = std::tuple<Args...>(args...)] {
    Stream host(Device::cpu, threads);
    Opened opened;
    std::apply([&](const Args&... each) { on_cpu(host, each...); }, kept);
  });
}

}  // namespace mtl::mirror
