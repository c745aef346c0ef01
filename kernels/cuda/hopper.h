// sm_90a instructions: barriers in shared memory (mbarrier), tile copies by the copy engine (TMA), and matmuls by a
// warpgroup of four warps (wgmma). A wgmma is asynchronous. Between wgmma_begin() and wgmma_end(), callers must not
// change the operands or read the sums. All threads in a warpgroup must call the wgmma functions together.
//
// Warp w in a warpgroup holds rows [16 w, 16 w + 16) of the sums (64, N), distributed over its lanes like D in mma.h.
// These functions compile for other architectures, but must not run there. tests/cuda_on_cpu has a header with the same
// name that emulates them.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/hopper_layout.h"

// True in device code that can call these functions. Also true in host code, because the host pass parses the calls.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MTL_HOPPER_CODE 1
#else
#define MTL_HOPPER_CODE 0
#endif

namespace mtl::cuda {

using TensorMap = CUtensorMap;
using Barrier = std::uint64_t;

/// Encodes a tensor map. The driver function for this is looked up at run time, because the program does not link the
/// driver. Kernels take maps as __grid_constant__ parameters.
inline TensorMap make_tensor_map(const PanelMap& map) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned kVersion = 12000;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kVersion, cudaEnableDefault, &result),
          "looking up cuTensorMapEncodeTiled in the driver");
    require(result == cudaDriverEntryPointSuccess,
            "GPU: the driver lacks cuTensorMapEncodeTiled; install a newer driver");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  TensorMap out;
  constexpr std::array<std::uint32_t, 5> kEveryElement{1, 1, 1, 1, 1};
  const CUresult status =
      encode(&out, map.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             static_cast<std::uint32_t>(map.sizes.size()), map.address, map.sizes.data(), map.strides.data(),
             map.box.data(), kEveryElement.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  require(status == CUDA_SUCCESS, "GPU: cuTensorMapEncodeTiled failed with status ", static_cast<int>(status));
  return out;
}

/// Initializes a barrier. A phase ends once `count` threads and all announced bytes have arrived.
__device__ inline void barrier_init(Barrier* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
/// Makes initialized barriers visible to the copy engine. Other threads see the barriers after __syncthreads().
__device__ inline void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives at the barrier and announces `bytes` bytes that copy_panel() calls will copy.
__device__ inline void barrier_arrive_expecting(Barrier* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Waits until a phase with this parity ends: 0 for the first phase, 1 for the second, 0 for the third, and so on. No
/// thread may fall two phases behind.
__device__ inline void barrier_wait(Barrier* barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
}

/// Starts copying the map's box at these coordinates to `to`, which must be the start of an atom. The copied bytes
/// arrive at `barrier`.
__device__ inline void copy_panel(void* to, const TensorMap& map, Barrier* barrier, int column, int head, int group,
                                  int position, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(group), "r"(position), "r"(sequence)
      : "memory");
}

/// Raise or lower the registers per thread in this warpgroup to `count`.
template <int count>
__device__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/// A compiler fence: the sums are in registers at this point, and the compiler keeps no older copies.
template <int n>
__device__ void keep(Sums<n>& sums) {
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums.v[j][i])::"memory");
  }
}
template <int n>
__device__ void wgmma_begin(Sums<n>& sums) {
  keep(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Closes the group of wgmmas started since the previous call.
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for all groups except the last `pending`. `sums` must not belong to one of those.
template <int pending, int n>
__device__ void wgmma_end(Sums<n>& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  keep(sums);
}

#define MTL_SUMS_4(d, j) "+f"(d.v[j][0]), "+f"(d.v[j][1]), "+f"(d.v[j][2]), "+f"(d.v[j][3])
#define MTL_SUMS_32(d, j)                                                                                   \
  MTL_SUMS_4(d, j), MTL_SUMS_4(d, j + 1), MTL_SUMS_4(d, j + 2), MTL_SUMS_4(d, j + 3), MTL_SUMS_4(d, j + 4), \
      MTL_SUMS_4(d, j + 5), MTL_SUMS_4(d, j + 6), MTL_SUMS_4(d, j + 7)
#define MTL_NAMES_32                                                                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MTL_NAMES_64                                                                                                 \
  MTL_NAMES_32                                                                                                       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, " \
  "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MTL_ROWS_64(type)                                                                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
               " {" MTL_NAMES_32 "}, %32, %33, p, 1, 1, 0, 0;\n}"                                                    \
               : MTL_SUMS_32(d, 0)                                                                                   \
               : "l"(a), "l"(b), "r"(accumulate ? 1 : 0)                                                             \
               : "memory")
#define MTL_ROWS_128(type)                                                                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
               " {" MTL_NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                     \
               : MTL_SUMS_32(d, 0), MTL_SUMS_32(d, 8)                                                                 \
               : "l"(a), "l"(b), "r"(accumulate ? 1 : 0)                                                              \
               : "memory")
#define MTL_COLUMNS_64(type)                                                                                         \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
               " {" MTL_NAMES_32 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                                      \
               : MTL_SUMS_32(d, 0)                                                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1)                                          \
               : "memory")
#define MTL_COLUMNS_128(type)                                                                                         \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
               " {" MTL_NAMES_64 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                       \
               : MTL_SUMS_32(d, 0), MTL_SUMS_32(d, 8)                                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1)                                           \
               : "memory")

/// d (64, N) = A (64, 16) B (N, 16)^T, or += if `accumulate`. A and B are in shared memory.
template <class T>
__device__ void wgmma_rows(Sums<8>& d, std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (dtype_of<T>() == DType::bf16)
    MTL_ROWS_64("bf16");
  else
    MTL_ROWS_64("f16");
}
template <class T>
__device__ void wgmma_rows(Sums<16>& d, std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (dtype_of<T>() == DType::bf16)
    MTL_ROWS_128("bf16");
  else
    MTL_ROWS_128("f16");
}
/// d (64, N) += A (64, 16) B (16, N). B is in shared memory. Each thread passes its fragment of A, as in mma.h.
template <class T>
__device__ void wgmma_columns(Sums<8>& d, const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (dtype_of<T>() == DType::bf16)
    MTL_COLUMNS_64("bf16");
  else
    MTL_COLUMNS_64("f16");
}
template <class T>
__device__ void wgmma_columns(Sums<16>& d, const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (dtype_of<T>() == DType::bf16)
    MTL_COLUMNS_128("bf16");
  else
    MTL_COLUMNS_128("f16");
}

#undef MTL_SUMS_4
#undef MTL_SUMS_32
#undef MTL_NAMES_32
#undef MTL_NAMES_64
#undef MTL_ROWS_64
#undef MTL_ROWS_128
#undef MTL_COLUMNS_64
#undef MTL_COLUMNS_128

}  // namespace mtl::cuda
