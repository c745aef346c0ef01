// Maps a call's dtypes to a kernel's element types.
#pragma once

#include "device/dtype.h"

namespace mtl::cuda {

/// Calls body(S(), T()), where S is the residual stream's type and T is the layers' compute type.
/// kernels/stream_types.h lists the allowed pairs.
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
