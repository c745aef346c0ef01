// The mirror's operators for the device cuda. Each makes its operands accessible and calls the cpu's operator. All
// operands must be in device memory. Workspaces are slightly larger than on the cpu, so that a plan made for the wrong
// device does not fit.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::mirror {

inline constexpr std::int64_t kMoreWork = 192;

/// Collects the memory of all operands, and checks that it is the device's.
struct Operands {
  std::vector<Memory> memory;

  void add(const void* data, std::size_t bytes) {
    require_inside(data, bytes);
    memory.push_back({data, bytes});
  }
  void add(const Tensor& tensor) {
    if (tensor.exists()) add(tensor.raw(), tensor.bytes());
  }
  void add(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) add(tensor);
  }
  void add(const StepState* state) {
    if (state != nullptr) add(state, sizeof(StepState));
  }
  void add(const Grad& grad) { add(grad.tensor); }
  void add(const StreamGrad& grad) { add_all(grad.tensor, grad.skip, grad.dbias); }
  void add(const Operand& operand) { add(operand.tensor); }
  void add(const RowMap& rows) { add(rows.samples); }
  void add(const ZLoss& z_loss) { add(z_loss.losses); }
  void add(const ResidualSum& sum) { add_all(sum.residual, sum.branch, sum.bias, sum.rows); }
  void add(const Epilogue& e) { add_all(e.bias, e.aux, e.dbias); }
  void add(const HeadSlice& slice) { add(slice.tensor); }
  void add(const Qkv& qkv) { add_all(qkv.q, qkv.k, qkv.v); }
  void add(const AttentionInput& in) { add_all(in.qkv, in.rows, in.past, in.document_start); }
  void add(const KvCache& cache) { add_all(cache.keys, cache.values, cache.lengths); }
  void add(const QkNorm& norm) { add_all(norm.q_gamma, norm.k_gamma, norm.q_rstd, norm.k_rstd, norm.angles); }
  void add(const LayerNormCache& cache) { add_all(cache.x, cache.mean, cache.rstd); }
  void add(const RmsNormCache& cache) { add_all(cache.x, cache.rstd); }
  void add(const LayerNormGrads& grads) { add_all(grads.dx, grads.dgamma, grads.dbeta); }
  void add(const UpdateRange& range) {
    add_all(range.param, range.grad, range.copy);
    for (const Tensor& state : range.states) add(state);
  }
  // These arguments have no tensors.
  void add(VocabSlice) {}
  void add(GradMode) {}
  void add(Activation) {}
  void add(const RotaryFrequencies&) {}
  void add(bool) {}
  void add(const HeadCopy&) {}
  void add(const Dropout&) {}
  void add(const AdamWOptions&) {}
  void add(const MuonOptions&) {}
  void add(const QuinticStep&) {}
  void add(double) {}
  void add(std::int64_t) {}

  template <class... Parts>
  void add_all(const Parts&... parts) {
    (add(parts), ...);
  }
};

/// The device's version of an operator: opens its operands and calls the cpu's, when its turn in the stream comes.
/// A NAME_work function asks for slightly more than the cpu's.
template <auto on_cpu>
struct Mirrored;

template <class... Args, void (*on_cpu)(Stream&, Args...)>
struct Mirrored<on_cpu> {
  static void call(Stream& stream, Args... args) {
    Operands operands;
    operands.add_all(args...);
    enqueue(stream.handle(), [threads = stream.threads(), memory = std::move(operands.memory),
                              kept = std::tuple<std::decay_t<Args>...>(args...)] {
      Stream host(Device::cpu, threads);
      const Opened opened(memory);
      std::apply([&](const auto&... each) { on_cpu(host, each...); }, kept);
    });
  }
};

template <class... Args, std::size_t (*on_cpu)(const Stream&, Args...)>
struct Mirrored<on_cpu> {
  static std::size_t call(const Stream& stream, Args... args) { return on_cpu(stream, args...) + kMoreWork; }
};

}  // namespace mtl::mirror
