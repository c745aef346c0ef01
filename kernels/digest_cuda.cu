// The digest of memory, which is read once, with 16 bytes per access if it is aligned for that.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

/// Returns word_i K_i.
__device__ inline std::uint64_t term(std::uint32_t word, std::int64_t i) {
  return std::uint64_t{word} * (static_cast<std::uint32_t>(2 * i + 1) * kDigestFactor);
}
/// Returns the share of byte `at` in the term of its word.
__device__ inline std::uint64_t byte_term(std::uint8_t byte, std::int64_t at) {
  return term(std::uint32_t{byte} << 8 * (at & 3), at >> 2);
}

/// Adds the digest to *total, by one atomic addition per block. A thread reads n bytes at a time: 16 or 1.
template <int n>
__global__ void add_digest(std::int64_t* total, const std::uint8_t* in, std::int64_t bytes) {
  std::uint64_t sum = 0;
  for (std::int64_t i = first_element(); i < bytes / n; i += all_threads()) {
    expect_aligned(in + n * i, n);
    if constexpr (n == 1) {
      sum += byte_term(in[i], i);
    } else {
      const Wide bits = reinterpret_cast<const Wide*>(in)[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) sum += term(static_cast<std::uint32_t>(bits >> 32 * j), 4 * i + j);
    }
  }
  const std::int64_t last = bytes / n * n + first_element();
  if (last < bytes) sum += byte_term(in[last], last);
  sum = block_sum(sum, shared_memory<std::uint64_t>());
  if (threadIdx.x == 0) add_count(total, static_cast<std::int64_t>(sum));  // integer sums do not depend on the order
}

}  // namespace

void digest(Stream& stream, Tensor sum, Tensor data) {
  const auto* in = static_cast<const std::uint8_t*>(data.raw());
  const auto bytes = static_cast<std::int64_t>(data.bytes());
  const auto add = [&]<int n>(std::integral_constant<int, n>) {
    LaunchShape shape = flat_shape((bytes + n - 1) / n);
    shape.shared_bytes = kWarp * sizeof(std::uint64_t);
    launch(stream, add_digest<n>, shape, sum.data<std::int64_t>(), in, bytes);
  };
  if (reinterpret_cast<std::uintptr_t>(in) % kAccess == 0)
    add(std::integral_constant<int, 16>());
  else
    add(std::integral_constant<int, 1>());
}

}  // namespace mtl::cuda
