// For programs without CUDA. No stream on it can be opened, so its operators are never called; a plan for cuda counts
// no scratch memory of theirs.
#include <type_traits>

#include "base/error.h"
#include "kernels/attention_cuda.h"
#include "kernels/cuda.h"
#include "kernels/gemm_cuda.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace mtl::cuda {

namespace {

template <class Result>
Result refuse_operator() {
  if constexpr (std::is_void_v<Result>)
    fail(Exit::usage, "--device cuda: this program was built without CUDA; use --device cpu");
  else
    return 0;
}

}  // namespace

#define MTL_OPERATOR(result, name, parameters) \
  result name parameters { return refuse_operator<result>(); }
#include "kernels/operators.inc"

std::string product_library() { return ""; }
std::string attention_library() { return ""; }

}  // namespace mtl::cuda
