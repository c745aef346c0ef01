// The three operators one after the other: on a CPU, the passes are bound by arithmetic.
#include "kernels/cpu.h"

namespace mtl::cpu {

void qk_norm_rotary_forward(Stream& stream, Tensor y, Tensor x, const QkNorm& norm, float eps) {
  const Qkv to = unpack_qkv(y), from = unpack_qkv(x);
  cpu::head_norm_forward(stream, to.q, norm.q_rstd, from.q, norm.q_gamma, eps);
  cpu::head_norm_forward(stream, to.k, norm.k_rstd, from.k, norm.k_gamma, eps);
  cpu::rotary_forward(stream, {y, 0, y.size(3) - 1}, norm.angles, norm.interleaved);
}

void qk_norm_rotary_backward(Stream& stream, Tensor work, Tensor grad, const Grad& dq_gamma, const Grad& dk_gamma,
                             Tensor x, const QkNorm& norm) {
  const Qkv grads = unpack_qkv(grad), from = unpack_qkv(x);
  const auto work_for = [&](const Grad& dgamma) { return dgamma.wanted() ? work : Tensor(); };
  cpu::rotary_backward(stream, {grad, 0, grad.size(3) - 1}, norm.angles, norm.interleaved);
  cpu::head_norm_backward(stream, work_for(dq_gamma), grads.q, dq_gamma, grads.q, from.q, norm.q_rstd, norm.q_gamma);
  cpu::head_norm_backward(stream, work_for(dk_gamma), grads.k, dk_gamma, grads.k, from.k, norm.k_rstd, norm.k_gamma);
}

std::size_t qk_norm_rotary_work(const Stream& stream, Tensor x) {
  return cpu::row_sums_work(stream, unpack_qkv(x).q.heads().numel(), x.size(4), x.size(4));
}

}  // namespace mtl::cpu
