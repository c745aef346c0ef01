#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

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
void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state) {
  forward<cpu::cross_entropy_forward_backward>(stream, losses, dlogits, logits, labels, weights, valid, state);
}
void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  forward<cpu::sum_losses>(stream, sum, losses, weights, mode);
}

}  // namespace mtl::cuda
