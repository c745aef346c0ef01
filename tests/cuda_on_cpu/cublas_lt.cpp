// Emulates cuBLASLt with the cpu's GEMM. As in the library, fused epilogues do not support every shape. Here, rows must
// be a multiple of 16 bytes.
#include "kernels/cuda/cublas_lt.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/gemm_product.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::emulated {

struct Handle {};
struct MatmulDesc {
  cublasComputeType_t compute;
  cublasOperation_t transposes_a = CUBLAS_OP_N, transposes_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_stride = 0;
};
/// A column-major matrix, which is a (columns, rows) tensor.
struct MatrixLayout {
  cudaDataType_t type;
  std::int64_t rows, columns;

  DType dtype() const {
    if (type == CUDA_R_16BF) return DType::bf16;
    return type == CUDA_R_16F ? DType::f16 : DType::f32;
  }
  Tensor at(const void* data) const { return {const_cast<void*>(data), dtype(), {columns, rows}}; }
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7, alignments[4] = {256, 256, 256, 256};
};

namespace {

/// Scratch memory unit. A Buffer would be counted, and a run must allocate none after its first step.
struct alignas(64) Cacheline {
  std::byte bytes[64];
};

ProductTimes times;
ProductLimits limits;
ProductCounts counts;

enum : int { kWhole = 1, kHalves = 2 };

/// Returns an algorithm's id, which is its first word. The second word is the number of K splits, and the third selects
/// how they are reduced.
int id_of(const cublasLtMatmulAlgo_t& algorithm) { return static_cast<int>(algorithm.data[0]); }

template <class T>
cublasStatus_t copy_to(T& target, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// A GEMM's operands and options, as mtl tensors.
struct Command {
  Product product;
  Tensor source;  // C; product.c is D
  Epilogue epilogue;
  Tensor dbias;
  int algorithm;

  void run() const {
    mirror::Opened opened;
    if (source.raw() != product.c.raw() && product.accumulate)
      std::memcpy(product.c.raw(), source.raw(), source.bytes());
    if (algorithm == kHalves) {
      multiply(0, product.k() / 2, product.accumulate);
      multiply(product.k() / 2, product.k(), true);
    } else {
      multiply(0, product.k(), product.accumulate);
    }
    if (dbias.exists()) sum_bias_gradient();
  }

 private:
  void multiply(std::int64_t begin, std::int64_t end, bool accumulate) const {
    Stream host(Device::cpu);
    const Operand a = part(product.a, product.a.transposed, begin, end);
    const Operand b = part(product.b, !product.b.transposed, begin, end);
    const GradMode mode = accumulate ? GradMode::accumulate : GradMode::overwrite;
    std::vector<Cacheline> work(cpu::gemm_work(host, product.c, a, b, mode, epilogue) / sizeof(Cacheline) + 1);
    const Tensor area(work.data(), DType::u8, {static_cast<std::int64_t>(work.size() * sizeof(Cacheline))});
    cpu::gemm(host, area, product.c, a, b, mode, epilogue);
  }
  /// Returns rows [begin, end) of an operand whose rows run along K. Other operands cannot be split.
  static Operand part(const Operand& whole, bool by_rows, std::int64_t begin, std::int64_t end) {
    if (by_rows) return {whole.tensor.rows(begin, end - begin), whole.transposed};
    require(begin == 0 && end == whole.tensor.size(1), "emulated cuBLASLt does not split columns");
    return whole;
  }
  void sum_bias_gradient() const {
    const Tensor& dy = product.a.tensor;
    with_float_type(dy.dtype(), [&]<class T>(T) {
      with_float_type(dbias.dtype(), [&]<class B>(B) {
        for (std::int64_t column = 0; column < dy.size(1); ++column) {
          float sum = 0;
          for (std::int64_t row = 0; row < dy.size(0); ++row) sum += widen(dy.data<T>()[row * dy.size(1) + column]);
          dbias.data<B>()[column] = narrow<B>(sum);
        }
      });
    });
  }
};

bool is_supported(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& d) {
  if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F)) return false;
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return false;
  if (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  const std::int64_t row = desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.columns : d.rows;
  return static_cast<std::size_t>(row) * size_of(d.dtype()) % 16 == 0;
}

/// Returns true if the GEMM can be split into two halves of K that are accumulated in C. This requires that C is fp32
/// and that the rows of both operands run along K.
bool has_halves(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& d) {
  const bool plain = desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  return plain && d.type == CUDA_R_32F && desc.transposes_a == CUBLAS_OP_N && desc.transposes_b == CUBLAS_OP_T &&
         a.columns > 1;
}

}  // namespace

void set_product_times(const ProductTimes& new_times) { times = new_times; }
void set_product_limits(const ProductLimits& new_limits) { limits = new_limits; }
ProductCounts product_counts() { return counts; }

}  // namespace mtl::emulated

namespace mtl::cuda {

using namespace emulated;

std::size_t CublasLt::version() { return 130000; }
const char* CublasLt::status_text(cublasStatus_t) { return "refused by the emulated library"; }
cublasStatus_t CublasLt::create(cublasLtHandle_t* handle) {
  *handle = new Handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::destroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CublasLt::matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                                const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                                cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                std::size_t workspace_bytes, StreamHandle stream) {
  // An earlier kernel's fault, too ("the GPU program failed to execute" in the cuBLAS documentation)
  if (mirror::is_broken()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const float alpha_value = *static_cast<const float*>(alpha), beta_value = *static_cast<const float*>(beta);
  if (alpha_value != 1 || (beta_value != 0 && beta_value != 1)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(*desc, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (id_of(*algorithm) == kHalves && !has_halves(*desc, *a_layout, *d_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // "Must be 256B aligned (i.e. lowest 8 bits of address must be 0)" (cuBLAS documentation, cublasLtMatmul, workspace)
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  mirror::require_inside(workspace, workspace_bytes);
  const Tensor out = d_layout->at(d);
  Command command{.product = {.c = out,
                              .a = {b_layout->at(b), desc->transposes_b == CUBLAS_OP_T},
                              .b = {a_layout->at(a), desc->transposes_a == CUBLAS_OP_T},
                              .accumulate = beta_value == 1},
                  .source = d_layout->at(c),
                  .epilogue = {},
                  .dbias = {},
                  .algorithm = id_of(*algorithm)};
  for (const Tensor& tensor : {command.product.a.tensor, command.product.b.tensor, out, command.source})
    mirror::require_inside(tensor.raw(), tensor.bytes());
  const Tensor of_rows(desc->bias, out.dtype(), {out.size(1)});
  switch (desc->epilogue) {
    case CUBLASLT_EPILOGUE_BGRADB:
      command.dbias = Tensor(desc->bias, out.dtype(), {out.size(0)});
      mirror::require_inside(desc->bias, command.dbias.bytes());
      break;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      command.epilogue.bias = of_rows;
      mirror::require_inside(desc->bias, of_rows.bytes());
      break;
    default:
      break;
  }
  const bool is_gelu =
      desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX || desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (is_gelu || desc->epilogue == CUBLASLT_EPILOGUE_DGELU) {
    if (desc->aux_stride != out.size(1)) return CUBLAS_STATUS_INVALID_VALUE;
    command.epilogue.act = is_gelu ? Epilogue::Act::forward : Epilogue::Act::backward;
    command.epilogue.aux = Tensor(desc->aux, out.dtype(), out.shape());
    mirror::require_inside(desc->aux, out.bytes());
  }
  if (command.epilogue.changes_c() && beta_value != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((command.algorithm == kHalves ? limits.halves : limits.whole)-- <= 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && limits.fused-- <= 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++counts.products;
  counts.halves += command.algorithm == kHalves;
  counts.bias_gradients += command.dbias.exists();
  counts.tf32 += desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  double seconds = (command.algorithm == kHalves ? times.halves : times.whole) +
                   (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : times.epilogue);
  if (times.ramp > 0) seconds *= 10;
  times.ramp -= seconds;
  mirror::enqueue(stream, [=, computes = !times.only_time] {
    if (computes) command.run();
    mirror::simulate_time(seconds);
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CublasLt::find_algorithms(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                         cublasLtMatmulPreference_t preference, int most,
                                         cublasLtMatmulHeuristicResult_t* results, int* found) {
  ++counts.searches;
  *found = 0;
  if (!is_supported(*desc, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (preference->workspace == 0 || preference->reductions != 2) return CUBLAS_STATUS_INVALID_VALUE;
  for (int id : {kWhole, kHalves}) {
    if (*found == most || (id == kHalves && !has_halves(*desc, *a, *d))) continue;
    cublasLtMatmulAlgo_t algorithm{};
    algorithm.data[0] = static_cast<std::uint64_t>(id);
    if (id == kHalves) algorithm.data[1] = algorithm.data[2] = 2;
    results[(*found)++] = {algorithm, 0, CUBLAS_STATUS_SUCCESS};
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CublasLt::make_algorithm(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                        cublasLtMatmulAlgo_t* algorithm) {
  if (id != kWhole && id != kHalves) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = {};
  algorithm->data[0] = static_cast<std::uint64_t>(id);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CublasLt::check_algorithm(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                         const cublasLtMatmulAlgo_t* algorithm,
                                         cublasLtMatmulHeuristicResult_t* result) {
  if (!is_supported(*desc, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool halves = id_of(*algorithm) == kHalves;
  const std::uint64_t expected = halves ? 2 : 0;
  if (algorithm->data[1] != expected || algorithm->data[2] != expected) return CUBLAS_STATUS_INVALID_VALUE;
  if (halves && !has_halves(*desc, *a, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algorithm, 0, CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

/// Returns where an attribute is stored, and its size in the library. Returns null for attributes that are not emulated
/// and must be 0.
std::pair<std::uint64_t*, std::size_t> config_of(cublasLtMatmulAlgo_t& algorithm,
                                                 cublasLtMatmulAlgoConfigAttributes_t name) {
  switch (name) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return {&algorithm.data[0], 4};
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return {&algorithm.data[1], 4};
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return {&algorithm.data[2], 4};
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return {nullptr, 2};
    default:
      return {nullptr, 4};
  }
}

}  // namespace

cublasStatus_t CublasLt::get_config(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                                    void* value, std::size_t bytes, std::size_t* written) {
  cublasLtMatmulAlgo_t copy = *algorithm;
  const auto [word, size] = config_of(copy, name);
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  const std::uint64_t stored = word == nullptr ? 0 : *word;
  std::memcpy(value, &stored, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::set_config(cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                                    const void* value, std::size_t bytes) {
  const auto [word, size] = config_of(*algorithm, name);
  if (bytes != size || word == nullptr || name == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE;
  *word = 0;
  std::memcpy(word, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CublasLt::create_desc(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new MatmulDesc{compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::destroy_desc(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void* value,
                                  std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return copy_to(desc->transposes_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return copy_to(desc->transposes_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return copy_to(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return copy_to(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return copy_to(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return copy_to(desc->aux_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t CublasLt::create_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                       std::uint64_t columns, std::int64_t stride) {
  if (rows == 0 || columns == 0 || stride != static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new MatrixLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::destroy_layout(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::create_preference(cublasLtMatmulPreference_t* preference) {
  *preference = new Preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::destroy_preference(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CublasLt::set_preference(cublasLtMatmulPreference_t preference,
                                        cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                        std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return copy_to(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return copy_to(preference->reductions, value, bytes);
    default:
      return copy_to(preference->alignments[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
}

}  // namespace mtl::cuda
