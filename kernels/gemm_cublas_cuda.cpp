// cuBLASLt. The library is opened at the first product: it has half a gigabyte, and a program that only uses the cpu
// must start without it.
//
// cuBLASLt's matrices are stored by columns, ours by rows: it computes C^T (N, M) = op(B)^T op(A)^T, where a matrix of
// ours is, without a move, its own transpose. So B is its first operand, N its number of rows, and a bias of N elements
// is added to each of its columns.
#include <cublasLt.h>

#include <bit>
#include <map>
#include <tuple>

#include "device/cuda_library.h"
#include "kernels/gemm_cuda.h"

namespace mtl::cuda {

namespace {

/// The library and the functions that are called.
struct CublasLt {
  CudaLibrary library{
      {cat("libcublasLt.so.", CUBLAS_VER_MAJOR)},
      "multiplies matrices on the GPU",
      cat("install cuBLAS ", CUBLAS_VER_MAJOR, " or add its folder to LD_LIBRARY_PATH, or choose --device cpu")};
  decltype(&::cublasLtCreate) create = library["cublasLtCreate"];
  decltype(&::cublasLtDestroy) destroy = library["cublasLtDestroy"];
  decltype(&::cublasLtMatmul) matmul = library["cublasLtMatmul"];
  decltype(&::cublasLtMatmulAlgoGetHeuristic) choose = library["cublasLtMatmulAlgoGetHeuristic"];
  decltype(&::cublasLtMatmulDescCreate) create_desc = library["cublasLtMatmulDescCreate"];
  decltype(&::cublasLtMatmulDescDestroy) destroy_desc = library["cublasLtMatmulDescDestroy"];
  decltype(&::cublasLtMatmulDescSetAttribute) set_desc = library["cublasLtMatmulDescSetAttribute"];
  decltype(&::cublasLtMatrixLayoutCreate) create_layout = library["cublasLtMatrixLayoutCreate"];
  decltype(&::cublasLtMatrixLayoutDestroy) destroy_layout = library["cublasLtMatrixLayoutDestroy"];
  decltype(&::cublasLtMatmulPreferenceCreate) create_preference = library["cublasLtMatmulPreferenceCreate"];
  decltype(&::cublasLtMatmulPreferenceDestroy) destroy_preference = library["cublasLtMatmulPreferenceDestroy"];
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = library["cublasLtMatmulPreferenceSetAttribute"];
};

void expect_success(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: ", what, " failed with status ", static_cast<int>(status));
}

cudaDataType_t cuda_type(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

/// The alignment of an address, as far as algorithms care.
std::uint32_t alignment_of(const Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.raw());
  return std::min(256u, 1u << std::min(std::countr_zero(address), 8));
}

cublasLtEpilogue_t epilogue_of(const FusedEpilogue& epilogue) {
  const bool bias = epilogue.bias.exists();
  if (epilogue.act == Epilogue::Act::forward)
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (epilogue.act == Epilogue::Act::backward) return CUBLASLT_EPILOGUE_DGELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// The properties of a product that an algorithm is chosen for.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DType, DType, cublasLtEpilogue_t,
                       std::uint32_t, std::uint32_t, std::uint32_t>;

Key key_of(const Product& p, const FusedEpilogue& epilogue) {
  return {p.m(),
          p.n(),
          p.k(),
          p.a.transposed,
          p.b.transposed,
          p.accumulate,
          p.a.tensor.dtype(),
          p.c.dtype(),
          epilogue_of(epilogue),
          alignment_of(p.a.tensor),
          alignment_of(p.b.tensor),
          alignment_of(p.c)};
}

/// One kind of product: its descriptors, and the algorithm, unless there is none.
class Plan {
 public:
  Plan(const CublasLt& lt, cublasLtHandle_t handle, const Product& product, const FusedEpilogue& epilogue) : lt_(lt) {
    expect_success(lt.create_desc(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a descriptor");
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set_epilogue(epilogue);
    first_ = layout(product.b.tensor);
    second_ = layout(product.a.tensor);
    out_ = layout(product.c);
    choose(handle, product);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {first_, second_, out_}) lt_.destroy_layout(layout);
    lt_.destroy_desc(desc_);
  }
  Plan(const Plan&) = delete;
  bool exists() const { return exists_; }

  void run(cublasLtHandle_t handle, StreamHandle stream, const Tensor& workspace, const Product& product,
           const FusedEpilogue& epilogue) {
    set_epilogue(epilogue);  // addresses differ from layer to layer
    const float alpha = 1, beta = product.accumulate ? 1 : 0;
    void* c = product.c.raw();
    expect_success(lt_.matmul(handle, desc_, &alpha, product.b.tensor.raw(), first_, product.a.tensor.raw(), second_,
                              &beta, c, out_, c, out_, &algorithm_, workspace.raw(), workspace.bytes(), stream),
                   "a product");
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    expect_success(lt_.set_desc(desc_, attribute, &value, sizeof(value)), "a descriptor's attribute");
  }
  /// bias and aux have C's dtype, which is cuBLASLt's default.
  void set_epilogue(const FusedEpilogue& epilogue) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
    if (epilogue.bias.exists()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias.raw());
    if (!epilogue.aux.exists()) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux.raw());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue.aux.size(-1));
  }
  cublasLtMatrixLayout_t layout(const Tensor& matrix) const {
    cublasLtMatrixLayout_t out = nullptr;
    const auto rows = static_cast<std::uint64_t>(matrix.size(1)), columns = static_cast<std::uint64_t>(matrix.size(0));
    expect_success(lt_.create_layout(&out, cuda_type(matrix.dtype()), rows, columns, matrix.size(1)), "a layout");
    return out;
  }
  void choose(cublasLtHandle_t handle, const Product& product) {
    cublasLtMatmulPreference_t preference = nullptr;
    expect_success(lt_.create_preference(&preference), "a preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      expect_success(lt_.set_preference(preference, attribute, &value, sizeof(value)), "a preference's attribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kGemmWorkspace});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b.tensor));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a.tensor));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.c));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = lt_.choose(handle, desc_, first_, second_, out_, out_, preference, 1, &best, &found);
    lt_.destroy_preference(preference);
    exists_ = status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    algorithm_ = best.algo;
  }

  const CublasLt& lt_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  bool exists_ = false;
};

/// The library as a stream keeps it.
class Library : public StreamCache {
 public:
  Library() { expect_success(lt_.create(&handle_), "its start on this GPU"); }
  ~Library() override {
    plans_.clear();
    lt_.destroy(handle_);
  }
  bool multiply(StreamHandle stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue) {
    Plan& plan = plans_.try_emplace(key_of(product, epilogue), lt_, handle_, product, epilogue).first->second;
    if (!plan.exists()) return false;
    plan.run(handle_, stream, workspace, product, epilogue);
    return true;
  }

 private:
  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace

bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue) {
  if (stream.cache() == nullptr) stream.cache() = std::make_unique<Library>();
  const bool done = static_cast<Library&>(*stream.cache()).multiply(stream.handle(), workspace, product, epilogue);
  require(done || epilogue_of(epilogue) != CUBLASLT_EPILOGUE_DEFAULT, "cuBLASLt has no algorithm for a product of ",
          product.m(), " x ", product.n(), " x ", product.k(), " in ", name_of(product.a.tensor.dtype()));
  return done;
}

}  // namespace mtl::cuda
