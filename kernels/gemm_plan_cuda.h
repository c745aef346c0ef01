// One kind of product as cuBLASLt is asked for it: descriptors, and the algorithm.
//
// cuBLASLt's matrices are stored by columns, ours by rows: it computes C^T (N, M) = op(B)^T op(A)^T, where a matrix of
// ours is, without a move, its own transpose. So B is its first operand, N its number of rows, and a bias of N elements
// is added to each of its columns. The bias gradient, M elements, is a sum over A, its second operand.
#pragma once

#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gemm_algorithm.h"
#include "kernels/gemm_cuda.h"

namespace mtl::cuda {

/// The library, opened, on the current GPU.
struct CublasLtSession {
  CublasLt lt{};
  cublasLtHandle_t handle = nullptr;
  CublasLtSession();
  ~CublasLtSession();
  CublasLtSession(const CublasLtSession&) = delete;
  /// Throws Error with the library's text.
  void expect_success(cublasStatus_t status, const char* what) const;
};

/// The alignment of an address, as far as algorithms care; 256 without a tensor.
std::uint32_t alignment_of(const Tensor& tensor);
cublasLtEpilogue_t epilogue_of(const FusedEpilogue& epilogue);

class GemmPlan {
 public:
  /// `product` and `epilogue` are the first of their kind; tf32: products of fp32 round their operands to it.
  GemmPlan(const CublasLtSession& session, const Product& product, const FusedEpilogue& epilogue, bool tf32);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;

  /// The library's best algorithms by its own estimate, best first; none where it has no such product or epilogue.
  std::vector<cublasLtMatmulAlgo_t> find_algorithms(const Product& product, int most) const;
  GemmAlgorithm describe(const cublasLtMatmulAlgo_t& algorithm) const;
  /// Takes this algorithm. False, and no change, where the library refuses it for the product, or it needs more
  /// workspace than there is, or sums in C's dtype.
  bool use(const GemmAlgorithm& algorithm);
  void use(const cublasLtMatmulAlgo_t& algorithm);
  void use_none() { has_algorithm_ = false; }
  bool has_algorithm() const { return has_algorithm_; }

  /// Computes into `d`, which is the product's C or has its shape, dtype and alignment; C itself is only read then.
  void run(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue, void* d);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value);
  void set_epilogue(const FusedEpilogue& epilogue);
  cublasLtMatrixLayout_t layout(const Tensor& matrix) const;

  const CublasLtSession& session_;
  cublasComputeType_t compute_;
  cudaDataType_t operand_type_, out_type_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  bool has_algorithm_ = false;
};

}  // namespace mtl::cuda
