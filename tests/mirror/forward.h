// The mirror's operators for the device cuda. Each makes the device memory accessible and calls the cpu's operator. All
// operands must be in device memory. Workspaces are slightly larger than on the cpu, so that a plan made for the wrong
// device does not fit.
#pragma once

#include <tuple>
#include <type_traits>

#include "kernels/cpu.h"
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

/// The device's version of an operator: opens the device memory and calls the cpu's, when its turn in the stream comes.
/// A NAME_work function asks for slightly more than the cpu's.
template <auto on_cpu>
struct Mirrored;

template <class... Args, void (*on_cpu)(Stream&, Args...)>
struct Mirrored<on_cpu> {
  static void call(Stream& stream, Args... args) {
    Operands::check_all(args...);
    enqueue(stream.handle(), [threads = stream.threads(), kept = std::tuple<std::decay_t<Args>...>(args...)] {
      Stream host(Device::cpu, threads);
      Opened opened;
      std::apply([&](const auto&... each) { on_cpu(host, each...); }, kept);
    });
  }
};

template <class... Args, std::size_t (*on_cpu)(const Stream&, Args...)>
struct Mirrored<on_cpu> {
  static std::size_t call(const Stream& stream, Args... args) { return on_cpu(stream, args...) + kMoreWork; }
};

}  // namespace mtl::mirror
