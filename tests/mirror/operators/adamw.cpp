#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state) {
  forward<cpu::adamw_step>(stream, range, options, state);
}

}  // namespace mtl::cuda
