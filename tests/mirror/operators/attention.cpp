#include "kernels/attention_cuda.h"
#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

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
std::string attention_library() { return "the cpu's attention"; }

}  // namespace mtl::cuda
