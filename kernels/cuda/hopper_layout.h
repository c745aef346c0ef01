// The tile layout that sm_90 tensor cores expect in shared memory. TMA writes tiles in this layout, and wgmma reads
// them through descriptors (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
//
// A (rows, D) tile with 16-bit elements is D / 64 consecutive panels. A panel holds 64 columns of every row, 128 bytes
// per row. Eight rows form an atom of 1024 bytes, which starts at a multiple of 1024. Within an atom, row r stores its
// 16-byte piece c at position c ^ r (the 128-byte swizzle). This puts the pieces of a column in different banks.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/head_slice.h"

namespace mtl::cuda {

inline constexpr int kPanel = 64;                              // columns
inline constexpr std::uint32_t kPanelRow = 128, kAtom = 1024;  // bytes

/// Returns wgmma's descriptor for a matrix in shared memory, swizzled as above. `stride` is the distance in bytes
/// between consecutive groups of 8 rows. `leading` is the distance in bytes between consecutive groups of 64 columns.
/// wgmma uses `leading` only if the matmul sums over rows (the operand is not K-major). If the matmul sums over columns
/// (K-major), wgmma ignores `leading`.
constexpr std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride) {
  constexpr std::uint64_t kSwizzle128Bytes = std::uint64_t{1} << 62;
  const auto field = [](std::uint32_t bytes) { return std::uint64_t{(bytes & 0x3ffff) >> 4}; };
  return field(address) | field(leading) << 16 | field(stride) << 32 | kSwizzle128Bytes;
}

/// Parameters for a TMA tensor map that copies one head's panels: the sizes and strides of (D, N, G, T, B), innermost
/// first, and the box that each copy moves. A copy fills positions beyond T with zeros.
struct PanelMap {
  void* address;
  DType dtype;
  std::array<std::uint64_t, 5> sizes;    // elements
  std::array<std::uint64_t, 4> strides;  // bytes, for all dimensions but the first
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
