// Replaces kernels/cuda/cublas_lt.h in tests: declares the parts of cuBLASLt that mtl uses, and the functions that
// emulate them (tests/cuda_on_cpu/cublas_lt.cpp). The cpu's operators compute the GEMMs. Like cuBLASLt, checks its
// arguments: attribute sizes, dtypes, alignments, workspace, pointers into device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda_stream.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cudaDataType_t { CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasLtEpilogue_t : std::uint32_t {
  CUBLASLT_EPILOGUE_DEFAULT,
  CUBLASLT_EPILOGUE_BIAS,
  CUBLASLT_EPILOGUE_GELU_AUX,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
  CUBLASLT_EPILOGUE_DGELU,
  CUBLASLT_EPILOGUE_BGRADB,
};
enum cublasLtReductionScheme_t : std::uint32_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA,
  CUBLASLT_MATMUL_DESC_TRANSB,
  CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
};
enum cublasLtMatmulAlgoConfigAttributes_t {
  CUBLASLT_ALGO_CONFIG_ID,
  CUBLASLT_ALGO_CONFIG_TILE_ID,
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
  CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
  CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
  CUBLASLT_ALGO_CONFIG_STAGES_ID,
  CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,
  CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
};

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
};

namespace mtl::emulated {
struct MatmulDesc;
struct MatrixLayout;
struct Preference;
struct Handle;
}  // namespace mtl::emulated
using cublasLtHandle_t = mtl::emulated::Handle*;
using cublasLtMatmulDesc_t = mtl::emulated::MatmulDesc*;
using cublasLtMatrixLayout_t = mtl::emulated::MatrixLayout*;
using cublasLtMatmulPreference_t = mtl::emulated::Preference*;

namespace mtl::cuda {

struct CublasLt {
  static std::size_t version();
  static const char* status_text(cublasStatus_t status);
  static cublasStatus_t create(cublasLtHandle_t* handle);
  static cublasStatus_t destroy(cublasLtHandle_t handle);
  static cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                               cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                               const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                               cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                               std::size_t workspace_bytes, StreamHandle stream);
  static cublasStatus_t find_algorithms(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                        cublasLtMatmulPreference_t preference, int most,
                                        cublasLtMatmulHeuristicResult_t* results, int* found);
  static cublasStatus_t make_algorithm(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                                       cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,
                                       cublasLtMatmulAlgo_t* algorithm);
  static cublasStatus_t check_algorithm(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                        const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result);
  static cublasStatus_t get_config(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                                   void* value, std::size_t bytes, std::size_t* written);
  static cublasStatus_t set_config(cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                                   const void* value, std::size_t bytes);
  static cublasStatus_t create_desc(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale);
  static cublasStatus_t destroy_desc(cublasLtMatmulDesc_t desc);
  static cublasStatus_t set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void* value,
                                 std::size_t bytes);
  static cublasStatus_t create_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                      std::uint64_t columns, std::int64_t stride);
  static cublasStatus_t destroy_layout(cublasLtMatrixLayout_t layout);
  static cublasStatus_t create_preference(cublasLtMatmulPreference_t* preference);
  static cublasStatus_t destroy_preference(cublasLtMatmulPreference_t preference);
  static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                                       const void* value, std::size_t bytes);
};

}  // namespace mtl::cuda

namespace mtl::emulated {

/// A GEMM's simulated seconds: with algorithm 1, with algorithm 2 (split-K in two halves), and the time added by an
/// epilogue. They are large so that real times do not affect the choice. A GPU that was idle raises its clocks while it
/// works: until products have taken `ramp` seconds, each takes ten times as long. With `only_time`, nothing is
/// computed.
struct ProductTimes {
  double whole = 1000, halves = 2000, epilogue = -500, ramp = 0;
  bool only_time = false;
};
void set_product_times(const ProductTimes& times);

/// How many more calls of each algorithm, and of any with an epilogue, succeed. Later ones fail to launch, although
/// check_algorithm() accepts the algorithm: success there "doesn't fully guarantee algo will run" (cublasLt.h,
/// cublasLtMatmulAlgoCheck).
struct ProductLimits {
  std::int64_t whole = INT64_MAX, halves = INT64_MAX, fused = INT64_MAX;
};
void set_product_limits(const ProductLimits& limits);

/// How often the library was called so far, by kind.
struct ProductCounts {
  std::int64_t searches = 0, products = 0, halves = 0, bias_gradients = 0, tf32 = 0;
};
ProductCounts product_counts();

}  // namespace mtl::emulated
