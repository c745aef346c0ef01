// Stubs for builds without cuDNN's headers, where attention has no cuDNN variant.
#include "base/error.h"
#include "kernels/attention_cuda.h"

namespace mtl::cuda {

bool has_cudnn() { return false; }

std::string attention_library() { return "no cuDNN"; }

void attention_forward_cudnn(Stream&, const Tensor&, const Tensor&, const Tensor&, const AttentionInput&) {
  fail(Exit::usage,
       "--attention-backend fused: this program was built without cuDNN; choose auto or flash, or install cuDNN's "
       "headers (cudnn.h) and build the program again");
}

}  // namespace mtl::cuda
