#include "kernels/cross_entropy.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
void check_logits(const Tensor& logits, const Tensor& labels, const VocabSlice& slice) {
  require(logits.dtype() == DType::f32 || logits.dtype() == DType::bf16,
          "cross_entropy logits: expected float32 or bfloat16, got ", name_of(logits.dtype()));
  expect_tensor("cross_entropy logits", logits, logits.dtype(), {logits.row_count(), logits.size(-1)});
  expect_tensor("cross_entropy labels", labels, DType::i32, {logits.size(0)});
  require(slice.begin >= 0 && slice.valid >= 0 && slice.valid <= logits.size(1), "cross_entropy: ", slice.valid,
          " valid columns from ", slice.begin, " do not fit logits ", logits.shape());
}

void check_stats(const Tensor& stats, const Tensor& logits) {
  expect_tensor("cross_entropy stats", stats, DType::f32, {logits.size(0), 3});
}

void check_gradient(const Tensor& dlogits, const Tensor& logits, const Tensor& weights, const ZLoss& z_loss) {
  expect_computed("cross_entropy dlogits", dlogits);
  expect_tensor("cross_entropy dlogits", dlogits, logits.dtype() == DType::f32 ? dlogits.dtype() : logits.dtype(),
                logits.shape());
  expect_in_place("cross_entropy dlogits", dlogits, logits);
  expect_tensor("cross_entropy weights", weights, DType::f32, {logits.size(0)});
  if (z_loss.coefficient != 0) expect_tensor("cross_entropy z-losses", z_loss.losses, DType::f32, {logits.size(0)});
}
}  // namespace

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice) {
  check_logits(logits, labels, slice);
  check_stats(stats, logits);
  stream.count(0, double(logits.bytes() + stats.bytes() + labels.bytes()));
  run<cpu::cross_entropy_stats, cuda::cross_entropy_stats>(stream, stats, logits, labels, slice);
}

void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts) {
  expect_tensor("cross_entropy stats", stats, DType::f32, {stats.size(0), 3});
  expect_tensor("cross_entropy parts", parts, DType::f32, {parts.size(0), stats.size(0), 3});
  stream.count(0, double(stats.bytes() + parts.bytes()));
  run<cpu::cross_entropy_combine, cuda::cross_entropy_combine>(stream, stats, parts);
}

void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats) {
  expect_tensor("cross_entropy losses", losses, DType::f32, {losses.numel()});
  expect_tensor("cross_entropy stats", stats, DType::f32, {losses.numel(), 3});
  stream.count(0, double(losses.bytes() + stats.bytes()));
  run<cpu::cross_entropy_loss, cuda::cross_entropy_loss>(stream, losses, stats);
}

void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state, const ZLoss& z_loss) {
  check_logits(logits, labels, slice);
  check_stats(stats, logits);
  check_gradient(dlogits, logits, weights, z_loss);
  stream.count(0, double(dlogits.bytes() + logits.bytes() + stats.bytes() + labels.bytes() + weights.bytes()));
  run<cpu::cross_entropy_backward, cuda::cross_entropy_backward>(stream, dlogits, logits, stats, labels, weights, slice,
                                                                 state, z_loss);
}

void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state, const ZLoss& z_loss) {
  check_logits(logits, labels, {0, valid});
  check_gradient(dlogits, logits, weights, z_loss);
  expect_tensor("cross_entropy losses", losses, DType::f32, {logits.size(0)});
  stream.count(0, double(dlogits.bytes() + logits.bytes() + losses.bytes() + labels.bytes() + weights.bytes()));
  run<cpu::cross_entropy_forward_backward, cuda::cross_entropy_forward_backward>(stream, losses, dlogits, logits,
                                                                                 labels, weights, valid, state, z_loss);
}

void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  expect_tensor("sum_losses sum", sum, DType::f64, {1});
  expect_tensor("sum_losses losses", losses, DType::f32, losses.shape());
  expect_tensor("sum_losses weights", weights, DType::f32, losses.shape());
  stream.count(0, double(losses.bytes() + weights.bytes()));
  run<cpu::sum_losses, cuda::sum_losses>(stream, sum, losses, weights, mode);
}

}  // namespace mtl
