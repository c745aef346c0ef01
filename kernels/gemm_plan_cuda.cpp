#include "kernels/gemm_plan_cuda.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mtl::cuda {

namespace {

/// The attributes in the same order as GemmAlgorithm::kNames, with the sizes the library uses, in bytes.
struct ConfigAttribute {
  cublasLtMatmulAlgoConfigAttributes_t name;
  std::size_t bytes;
};
constexpr ConfigAttribute kConfig[GemmAlgorithm::kNames.size()] = {
    {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},        {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},     {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},  {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2}, {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2}};
constexpr std::size_t kReduction = 3;

/// We allow only the split-K scheme that adds partial sums in fp32 in the workspace. The other schemes round partial
/// sums to the dtype of C, or add them in C itself.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

cudaDataType_t cuda_type(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

}  // namespace

CublasLtSession::CublasLtSession() { expect_success(lt.create(&handle), "initialization on this GPU"); }
CublasLtSession::~CublasLtSession() { lt.destroy(handle); }

void CublasLtSession::expect_success(cublasStatus_t status, const char* what) const {
  require(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: ", what, " failed: ", text_of(status));
}

std::string CublasLtSession::text_of(cublasStatus_t status) const {
  return cat(lt.status_text(status), " (status ", static_cast<int>(status), ")");
}

std::uint32_t alignment_of(const Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.raw());
  return std::min(256u, 1u << std::min(std::countr_zero(address), 8));
}

cublasLtEpilogue_t epilogue_of(const FusedEpilogue& epilogue) {
  const bool bias = epilogue.bias.exists();
  if (epilogue.dbias.exists()) return CUBLASLT_EPILOGUE_BGRADB;
  if (epilogue.act == Epilogue::Act::forward)
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (epilogue.act == Epilogue::Act::backward) return CUBLASLT_EPILOGUE_DGELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

GemmPlan::GemmPlan(const CublasLtSession& session, const Product& product, const FusedEpilogue& epilogue, bool tf32)
    : session_(session),
      compute_(tf32 && product.a.tensor.dtype() == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
      operand_type_(cuda_type(product.a.tensor.dtype())),
      out_type_(cuda_type(product.c.dtype())) {
  session_.expect_success(session_.lt.create_desc(&desc_, compute_, CUDA_R_32F), "creating a descriptor");
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_epilogue(epilogue);
  first_ = layout(product.b.tensor);
  second_ = layout(product.a.tensor);
  out_ = layout(product.c);
}

GemmPlan::~GemmPlan() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, out_}) session_.lt.destroy_layout(layout);
  session_.lt.destroy_desc(desc_);
}

template <class T>
void GemmPlan::set(cublasLtMatmulDescAttributes_t attribute, T value) {
  session_.expect_success(session_.lt.set_desc(desc_, attribute, &value, sizeof(value)),
                          "setting a descriptor's attribute");
}

/// Bias, bias gradient and aux have the dtype of C, which is cuBLASLt's default.
void GemmPlan::set_epilogue(const FusedEpilogue& epilogue) {
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
  if (epilogue.bias.exists()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias.raw());
  if (epilogue.dbias.exists()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.dbias.raw());
  if (!epilogue.aux.exists()) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux.raw());
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue.aux.size(-1));
}

cublasLtMatrixLayout_t GemmPlan::layout(const Tensor& matrix) const {
  cublasLtMatrixLayout_t out = nullptr;
  const auto rows = static_cast<std::uint64_t>(matrix.size(1)), columns = static_cast<std::uint64_t>(matrix.size(0));
  session_.expect_success(session_.lt.create_layout(&out, cuda_type(matrix.dtype()), rows, columns, matrix.size(1)),
                          "creating a layout");
  return out;
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::find_algorithms(const Product& product, int most) const {
  const CublasLt& lt = session_.lt;
  cublasLtMatmulPreference_t preference = nullptr;
  session_.expect_success(lt.create_preference(&preference), "creating a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    session_.expect_success(lt.set_preference(preference, attribute, &value, sizeof(value)),
                            "setting a preference's attribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kGemmWorkspace});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b.tensor));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a.tensor));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.c));
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int found = 0;
  const cublasStatus_t status =
      lt.find_algorithms(session_.handle, desc_, first_, second_, out_, out_, preference, most, results.data(), &found);
  lt.destroy_preference(preference);
  std::vector<cublasLtMatmulAlgo_t> out;
  if (status != CUBLAS_STATUS_SUCCESS) return out;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[i];
    if (result.state == CUBLAS_STATUS_SUCCESS) out.push_back(result.algo);
  }
  return out;
}

GemmAlgorithm GemmPlan::describe(const cublasLtMatmulAlgo_t& algorithm) const {
  // An attribute that this library version does not know counts as 0.
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t name, std::size_t bytes) {
    int value = 0;  // little-endian: two bytes fill the lower half
    std::size_t written = 0;
    const bool has = session_.lt.get_config(&algorithm, name, &value, bytes, &written) == CUBLAS_STATUS_SUCCESS;
    return has ? value : 0;
  };
  GemmAlgorithm out{get(CUBLASLT_ALGO_CONFIG_ID, 4)};
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] = get(kConfig[i].name, kConfig[i].bytes);
  return out;
}

bool GemmPlan::use(const GemmAlgorithm& algorithm) {
  const CublasLt& lt = session_.lt;
  if ((static_cast<std::uint32_t>(algorithm.values[kReduction]) & ~kReductions) != 0) return false;
  cublasLtMatmulAlgo_t made{};
  if (lt.make_algorithm(session_.handle, compute_, CUDA_R_32F, operand_type_, operand_type_, out_type_, out_type_,
                        algorithm.id, &made) != CUBLAS_STATUS_SUCCESS)
    return false;
  const GemmAlgorithm defaults = describe(made);
  for (std::size_t i = 0; i < algorithm.values.size(); ++i) {
    if (algorithm.values[i] == defaults.values[i]) continue;
    if (lt.set_config(&made, kConfig[i].name, &algorithm.values[i], kConfig[i].bytes) != CUBLAS_STATUS_SUCCESS)
      return false;
  }
  cublasLtMatmulHeuristicResult_t result{};
  if (lt.check_algorithm(session_.handle, desc_, first_, second_, out_, out_, &made, &result) != CUBLAS_STATUS_SUCCESS)
    return false;
  if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kGemmWorkspace) return false;
  return use(made);
}

bool GemmPlan::use(const cublasLtMatmulAlgo_t& algorithm) {
  const auto is_same = [&](const cublasLtMatmulAlgo_t& failed) {
    return std::memcmp(&failed, &algorithm, sizeof(algorithm)) == 0;
  };
  if (std::any_of(failed_.begin(), failed_.end(), is_same)) return false;
  algorithm_ = algorithm;
  has_algorithm_ = true;
  return true;
}

bool GemmPlan::run(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue,
                   void* d) {
  set_epilogue(epilogue);  // addresses differ from layer to layer
  const float alpha = 1, beta = product.accumulate ? 1 : 0;
  const cublasStatus_t status = session_.lt.matmul(
      session_.handle, desc_, &alpha, product.b.tensor.raw(), first_, product.a.tensor.raw(), second_, &beta,
      product.c.raw(), out_, d, out_, &algorithm_, workspace.raw(), workspace.bytes(), stream.handle());
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  static_cast<void>(stream.is_captured());  // throws if an earlier kernel's fault is the reason
  has_algorithm_ = false;
  failed_.push_back(algorithm_);
  failures_.push_back({cat("algorithm ", describe(algorithm_).text()), session_.text_of(status)});
  return false;
}

}  // namespace mtl::cuda
