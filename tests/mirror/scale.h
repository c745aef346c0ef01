// A command that changes a tensor, for tests of streams, graphs and communication.
#pragma once

#include "device/stream.h"
#include "device/tensor.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::test {

/// tensor *= factor; f32. Runs in the stream's turn, like an operator. Counts the bytes that it reads and writes.
inline void scale(Stream& stream, const Tensor& tensor, float factor) {
  stream.count(0, 2 * static_cast<double>(tensor.bytes()));
  mirror::enqueue(stream.handle(), [=] {
    mirror::Opened opened({{tensor.raw(), tensor.bytes()}});
    auto* values = static_cast<float*>(tensor.raw());
    for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] *= factor;
  });
}

}  // namespace mtl::test
