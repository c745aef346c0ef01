// The cuBLASLt descriptors and the algorithm for one kind of matmul.
//
// cuBLASLt matrices are column-major, and ours are row-major. cuBLASLt therefore reads each of our matrices as its
// transpose, and computes C^T (N, M) = op(B)^T op(A)^T. For cuBLASLt, B is the first operand, the result has N rows,
// and a bias with N elements is added to each column. The bias gradient, with M elements, is a sum over A, the second
// operand.
#pragma once

#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/gemm_algorithm.h"
#include "kernels/gemm_cuda.h"

namespace mtl::cuda {

/// The loaded library and its handle for the current GPU.
struct CublasLtSession {
  CublasLt lt{};
  cublasLtHandle_t handle = nullptr;
  CublasLtSession();
  ~CublasLtSession();
  CublasLtSession(const CublasLtSession&) = delete;
  /// Throws Error with the library's error text unless `status` is success.
  void expect_success(cublasStatus_t status, const char* what) const;
  /// Returns "the function failed to launch on the GPU (status 13)".
  std::string text_of(cublasStatus_t status) const;
};

/// Returns the alignment of the tensor's address in bytes, at most 256. Returns 256 if the tensor is absent.
std::uint32_t alignment_of(const Tensor& tensor);
cublasLtEpilogue_t epilogue_of(const FusedEpilogue& epilogue);

class GemmPlan {
 public:
  /// A plan can be used for all matmuls and epilogues with the same shapes, transpositions, dtypes and alignments. With
  /// `tf32`, fp32 matmuls round their operands to TF32.
  GemmPlan(const CublasLtSession& session, const Product& product, const FusedEpilogue& epilogue, bool tf32);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;

  /// Returns at most `most` algorithms, in descending order of estimated performance. Returns none if the library does
  /// not support the matmul or the epilogue.
  std::vector<cublasLtMatmulAlgo_t> find_algorithms(const Product& product, int most) const;
  GemmAlgorithm describe(const cublasLtMatmulAlgo_t& algorithm) const;
  /// Adopts this algorithm. Changes nothing and returns false if any of these holds:
  /// - The library rejects the algorithm for the matmul.
  /// - The algorithm needs more than kGemmWorkspace bytes.
  /// - The algorithm adds partial sums in C or in the dtype of C, instead of in fp32 in the workspace.
  /// - The algorithm has failed in run().
  bool use(const GemmAlgorithm& algorithm);
  /// Adopts this algorithm. Changes nothing and returns false if it has failed in run().
  bool use(const cublasLtMatmulAlgo_t& algorithm);
  void use_none() { has_algorithm_ = false; }
  bool has_algorithm() const { return has_algorithm_; }

  /// Writes the result to `d`, which is either the product's C or other memory with the same shape, dtype and
  /// alignment. In the latter case, C is only read. Returns false if the library cannot launch the adopted algorithm.
  /// The library's checks do not rule this out. The plan then has no algorithm, and does not adopt this one again.
  [[nodiscard]] bool run(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue,
                         void* d);
  struct Failure {
    std::string algorithm, why;  // "algorithm 66 tile=20", and the library's text
  };
  /// Returns which algorithms have failed in run(), in order.
  const std::vector<Failure>& failures() const { return failures_; }

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
  std::vector<cublasLtMatmulAlgo_t> failed_;
  std::vector<Failure> failures_;
};

}  // namespace mtl::cuda
