// Maps the dtypes of a call to the types of a kernel.
#pragma once

#include "device/dtype.h"

namespace mtl::cuda {

/// Calls body(S(), T()) for a residual stream of S and layers that compute with T, as kernels/stream_types.h allows
/// them.
template <class Body>
void with_stream_types(DType stream, DType compute, const Body& body) {
  with_float_type(compute, [&](auto t) {
    if (stream == compute)
      body(t, t);
    else
      body(float(), t);
  });
}

}  // namespace mtl::cuda
