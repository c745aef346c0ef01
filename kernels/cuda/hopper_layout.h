// The layout of tiles in shared memory for the tensor cores of sm_90. TMA writes tiles in this layout, and wgmma reads
// them through descriptors (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
//
// A tile (rows, D) of 16-bit elements is D / 64 consecutive panels. A panel holds 64 columns of all rows, 128 bytes per
// row. Eight rows form an atom of 1024 bytes, which begins at a multiple of 1024. Within an atom, the 16-byte piece c
// of row r is stored at piece c ^ r (the 128-byte swizzle), so that the pieces of a column are in different banks.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/head_slice.h"

namespace mtl::cuda {

inline constexpr int kPanel = 64;                              // columns
inline constexpr std::uint32_t kPanelRow = 128, kAtom = 1024;  // bytes

/// wgmma's descriptor of a matrix in shared memory, swizzled as above. `stride` is the distance between consecutive
/// groups of 8 rows, in bytes. `leading` is the distance between consecutive groups of 64 columns, in bytes, if the
/// product sums over rows (an operand that is not K-major). `leading` is ignored if the product sums over columns
/// (K-major).
constexpr std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride) {
  constexpr std::uint64_t kSwizzle128Bytes = std::uint64_t{1} << 62;
  const auto field = [](std::uint32_t bytes) { return std::uint64_t{(bytes & 0x3ffff) >> 4}; };
  return field(address) | field(leading) << 16 | field(stride) << 32 | kSwizzle128Bytes;
}

/// The parameters of a TMA tensor map that copies panels of one head: sizes and strides of (D, N, G, T, B), innermost
/// first, and the box of a copy. A copy fills positions beyond T with zeros.
struct PanelMap {
  void* address;
  DType dtype;
  std::array<std::uint64_t, 5> sizes;    // elements
  std::array<std::uint64_t, 4> strides;  // bytes, of all dimensions but the first
  std::array<std::uint32_t, 5> box;      // elements
};

inline PanelMap panel_map(const HeadSlice& heads, int rows) {
  const Tensor& t = heads.tensor;
  PanelMap map{.address = t.raw(),
               .dtype = t.dtype(),
               .sizes = {},
               .strides = {},
               .box = {kPanel, 1, 1, static_cast<std::uint32_t>(rows), 1}};
  std::uint64_t bytes = size_of(t.dtype());
  const std::array<int, 5> order{4, 3, 2, 1, 0};
  for (std::size_t i = 0; i < 5; ++i) {
    if (i > 0) map.strides[i - 1] = bytes;
    map.sizes[i] = static_cast<std::uint64_t>(t.size(order[i]));
    bytes *= map.sizes[i];
  }
  return map;
}

}  // namespace mtl::cuda
