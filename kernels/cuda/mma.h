// Tensor core and asynchronous copy instructions that all GPUs since sm_80 have. All lanes in a warp must call ldmatrix
// and mma together. For D (16, 8) = A (16, 16) B (16, 8) + D, lane 4 g + q holds these elements:
//   A  pairs of columns: (g, 2q), (g + 8, 2q), (g, 2q + 8), (g + 8, 2q + 8)
//   B  pairs of rows:    (2q, g), (2q + 8, g)
//   D  (g, 2q), (g, 2q + 1), (g + 8, 2q), (g + 8, 2q + 1)
// tests/cuda_on_cpu has a header with the same name that emulates these instructions.
#pragma once

#include <cstdint>

#include "kernels/cuda/platform.h"

namespace mtl::cuda {

__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// Loads four (8, 8) matrices with 16-bit elements. Lanes 8 i .. 8 i + 7 pass matrix i's rows, 16 bytes each. From each
/// matrix, lane 4 r + c receives elements 2c and 2c + 1 in row r.
__device__ inline void ldmatrix_x4(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Like ldmatrix_x4(), but transposes each matrix: lane 4 r + c receives elements (2c, r) and (2c + 1, r).
__device__ inline void ldmatrix_x4_trans(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/// d += a b. T, the element type, is Bf16 or Half.
template <class T>
__device__ void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (dtype_of<T>() == DType::bf16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Starts copying 16 bytes to shared memory. Both addresses must be aligned to 16 bytes. If `inside` is false, writes
/// zeros and reads nothing.
__device__ inline void cp_async_16(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
/// Like cp_async_16(), for 4 bytes.
__device__ inline void cp_async_4(void* to, const void* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
/// Closes the group of copies that this thread started since the previous call.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all of this thread's groups except the last `pending`. Other threads see the copies after a barrier.
template <int pending>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace mtl::cuda
