// The operators of the device cuda in the mirror: each opens the device's memory, computes on the cpu, closes it. All
// operands must be in that memory. Work areas are a little larger than the cpu's, so that a plan made for the wrong
// device does not fit.
#include "kernels/cpu.h"
#include "kernels/cuda.h"
#include "tests/mirror/space.h"

namespace mtl::cuda {

namespace {

constexpr std::int64_t kMoreWork = 192;

/// Every operand is in the device's memory.
struct Operands {
  static void check(const Tensor& tensor) {
    if (tensor.exists()) mirror::require_inside(tensor.raw(), tensor.bytes());
  }
  static void check(const StepState* state) {
    if (state != nullptr) mirror::require_inside(state, sizeof(StepState));
  }
  static void check(const Grad& grad) { check(grad.tensor); }
  static void check(const Operand& operand) { check(operand.tensor); }
  static void check(const RowMap& rows) { check(rows.samples); }
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
  // What has no tensors.
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

/// The cpu's part of a work area.
Tensor cpu_part(const Tensor& work) { return work.exists() ? work.flat(0, work.numel() - kMoreWork) : work; }

template <auto on_cpu, class... Args>
void forward(Stream& stream, const Args&... args) {
  Operands::check_all(args...);
  Stream host(Device::cpu, stream.threads());
  mirror::Opened opened;
  on_cpu(host, args...);
}

}  // namespace

void gemm(Stream& stream, Tensor work, Tensor c, const Operand& a, const Operand& b, GradMode mode,
          const Epilogue& epilogue) {
  forward<cpu::gemm>(stream, cpu_part(work), c, a, b, mode, epilogue);
}
std::size_t gemm_work(const Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode,
                      const Epilogue& epilogue) {
  return cpu::gemm_work(stream, c, a, b, mode, epilogue) + kMoreWork;
}

void attention_forward(Stream& stream, Tensor work, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  forward<cpu::attention_forward>(stream, cpu_part(work), out, logsumexp, in);
}
void attention_backward(Stream& stream, Tensor work, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  forward<cpu::attention_backward>(stream, cpu_part(work), grads, dout, out, logsumexp, in);
}
void append_to_cache(Stream& stream, const KvCache& cache, const HeadSlice& k, const HeadSlice& v) {
  forward<cpu::append_to_cache>(stream, cache, k, v);
}
std::size_t attention_forward_work(const Stream& stream, Tensor logsumexp, const AttentionInput& in) {
  return cpu::attention_forward_work(stream, logsumexp, in) + kMoreWork;
}
std::size_t attention_backward_work(const Stream& stream, const AttentionInput& in) {
  return cpu::attention_backward_work(stream, in) + kMoreWork;
}

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps) {
  forward<cpu::layernorm_forward>(stream, y, cache, gamma, beta, eps);
}
void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  forward<cpu::layernorm_backward>(stream, cpu_part(work), grads, dy, cache, gamma);
}
std::size_t layernorm_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::layernorm_backward_work(stream, rows, width) + kMoreWork;
}

void rmsnorm_forward(Stream& stream, Tensor y, const RmsNormCache& cache, Tensor gamma, float eps) {
  forward<cpu::rmsnorm_forward>(stream, y, cache, gamma, eps);
}
void rmsnorm_backward(Stream& stream, Tensor work, const Grad& dx, const Grad& dgamma, Tensor dy,
                      const RmsNormCache& cache, Tensor gamma) {
  forward<cpu::rmsnorm_backward>(stream, cpu_part(work), dx, dgamma, dy, cache, gamma);
}
std::size_t rmsnorm_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::rmsnorm_backward_work(stream, rows, width) + kMoreWork;
}

void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  forward<cpu::head_norm_forward>(stream, y, rstd, x, gamma, eps);
}
void head_norm_backward(Stream& stream, Tensor work, const HeadSlice& dx, const Grad& dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma) {
  forward<cpu::head_norm_backward>(stream, cpu_part(work), dx, dgamma, dy, x, rstd, gamma);
}
std::size_t head_norm_backward_work(const Stream& stream, const HeadSlice& x) {
  return cpu::head_norm_backward_work(stream, x) + kMoreWork;
}

void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout,
                      const RowMap& rows) {
  forward<cpu::residual_forward>(stream, out, residual, branch, bias, dropout, rows);
}
void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  forward<cpu::residual_backward>(stream, cpu_part(work), dbranch, dbias, dout, dropout, rows);
}
std::size_t residual_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::residual_backward_work(stream, rows, width) + kMoreWork;
}

void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies) {
  forward<cpu::rotary_angles>(stream, out, positions, frequencies);
}
void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  forward<cpu::rotary_forward>(stream, heads, angles, interleaved);
}
void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  forward<cpu::rotary_backward>(stream, heads, angles, interleaved);
}

void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation) {
  forward<cpu::gated_forward>(stream, out, pre, activation);
}
void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation) {
  forward<cpu::gated_backward>(stream, dpre, dout, pre, activation);
}

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  forward<cpu::embedding_forward>(stream, out, tokens, vocab_begin, table);
}
void embedding_backward(Stream& stream, Tensor work, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin) {
  forward<cpu::embedding_backward>(stream, cpu_part(work), dtable, dout, tokens, vocab_begin);
}
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  forward<cpu::positions_forward>(stream, x, positions, table, dropout, rows);
}
void positions_backward(Stream& stream, Tensor work, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  forward<cpu::positions_backward>(stream, cpu_part(work), dtable, dx, positions, dropout, rows);
}
std::size_t scatter_work(const Stream& stream, Tensor dtable, std::int64_t places) {
  return cpu::scatter_work(stream, dtable, places) + kMoreWork;
}

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice) {
  forward<cpu::cross_entropy_stats>(stream, stats, logits, labels, slice);
}
void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts) {
  forward<cpu::cross_entropy_combine>(stream, stats, parts);
}
void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats) {
  forward<cpu::cross_entropy_loss>(stream, losses, stats);
}
void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state) {
  forward<cpu::cross_entropy_backward>(stream, dlogits, logits, stats, labels, weights, slice, state);
}
void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  forward<cpu::sum_losses>(stream, sum, losses, weights, mode);
}

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state) {
  forward<cpu::adamw_step>(stream, range, options, state);
}
void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm) {
  forward<cpu::finish_grad_norm>(stream, state, sum, max_norm);
}

void fill_zero(Stream& stream, Tensor out) { forward<cpu::fill_zero>(stream, out); }
void copy(Stream& stream, Tensor out, Tensor in) { forward<cpu::copy>(stream, out, in); }
void add(Stream& stream, Tensor out, Tensor in) { forward<cpu::add>(stream, out, in); }
void scale(Stream& stream, Tensor out, float factor) { forward<cpu::scale>(stream, out, factor); }
void sum_of_squares(Stream& stream, Tensor work, Tensor out, Tensor in, GradMode mode) {
  forward<cpu::sum_of_squares>(stream, cpu_part(work), out, in, mode);
}
std::size_t sum_of_squares_work(const Stream& stream, std::int64_t count) {
  return cpu::sum_of_squares_work(stream, count) + kMoreWork;
}
void find_nonfinite(Stream& stream, Tensor found, Tensor in) { forward<cpu::find_nonfinite>(stream, found, in); }

}  // namespace mtl::cuda
