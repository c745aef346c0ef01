// bf16 matmuls with oneDNN primitives. A primitive is compiled for given shapes and a given thread count, so each
// stream caches the primitives it uses (StreamCache).
#include <dnnl.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/gemm_cpu.h"

namespace mtl::cpu {

namespace {

/// A model's layers have about 20 different matmuls, and evaluation adds the same number.
constexpr std::size_t kMaxMatmuls = 128;

/// Identifies a compiled primitive.
struct MatmulKey {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate, bias;
  DType c;
  int threads;
  bool operator==(const MatmulKey&) const = default;
};

dnnl::memory::desc matrix_desc(const Tensor& tensor, bool transposed = false) {
  const auto type = tensor.dtype() == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const std::int64_t rows = tensor.size(0), columns = tensor.size(1);
  if (transposed) return {{columns, rows}, type, dnnl::memory::dims{1, columns}};
  return {{rows, columns}, type, dnnl::memory::dims{columns, 1}};
}

/// Views a bias (N) as a row (1, N).
Tensor row_of(const Tensor& bias) { return bias.exists() ? bias.view({1, bias.numel()}) : bias; }

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Product& product, const Tensor& bias) {
  const auto a = matrix_desc(product.a.tensor, product.a.transposed),
             b = matrix_desc(product.b.tensor, product.b.transposed), c = matrix_desc(product.c);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulate) {
    dnnl::post_ops add;
    add.append_sum();
    attributes.set_post_ops(add);
  }
  const bool allow_empty = true;  // if oneDNN has no implementation
  if (!bias.exists()) return {dnnl::matmul::desc(a, b, c), attributes, engine, allow_empty};
  return {dnnl::matmul::desc(a, b, matrix_desc(row_of(bias)), c), attributes, engine, allow_empty};
}

/// Rethrows oneDNN's exceptions as Error.
template <class Body>
decltype(auto) with_errors(const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    fail(Exit::failure, "oneDNN: a bf16 product failed with status ", static_cast<int>(error.status), ": ",
         error.what());
  }
}

}  // namespace

/// A stream's compiled primitives, most recently used first.
class MatmulCache final : public StreamCache {
 public:
  struct Matmul {
    MatmulKey key;
    dnnl::matmul::primitive_desc descriptor;
    dnnl::matmul primitive;  // compiled on first use
  };

  Matmul& find(const Product& product, const Tensor& bias, int threads) {
    const MatmulKey key{.m = product.m(),
                        .n = product.n(),
                        .k = product.k(),
                        .a_transposed = product.a.transposed,
                        .b_transposed = product.b.transposed,
                        .accumulate = product.accumulate,
                        .bias = bias.exists(),
                        .c = product.c.dtype(),
                        .threads = threads};
    auto at = std::find_if(matmuls_.begin(), matmuls_.end(), [&](const auto& one) { return one->key == key; });
    if (at == matmuls_.end()) {
      if (matmuls_.size() == kMaxMatmuls) matmuls_.pop_back();
      ThreadLimit limit(threads);
      matmuls_.push_back(std::make_unique<Matmul>(
          Matmul{.key = key, .descriptor = describe(engine_, product, bias), .primitive = {}}));
      at = matmuls_.end() - 1;
    }
    std::rotate(matmuls_.begin(), at, at + 1);
    return *matmuls_.front();
  }

  void execute(Matmul& matmul, Tensor work, const Product& product, const Tensor& bias) {
    ThreadLimit limit(matmul.key.threads);
    if (!matmul.primitive) matmul.primitive = dnnl::matmul(matmul.descriptor);
    const auto memory = [&](const dnnl::memory::desc& desc, const Tensor& tensor) {
      return dnnl::memory(desc, engine_, tensor.raw());
    };
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory(matmul.descriptor.src_desc(), product.a.tensor)},
        {DNNL_ARG_WEIGHTS, memory(matmul.descriptor.weights_desc(), product.b.tensor)},
        {DNNL_ARG_DST, memory(matmul.descriptor.dst_desc(), product.c)},
        {DNNL_ARG_SCRATCHPAD, memory(matmul.descriptor.scratchpad_desc(), work)}};
    if (bias.exists()) arguments.emplace(DNNL_ARG_BIAS, memory(matmul.descriptor.bias_desc(), bias));
    matmul.primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<std::unique_ptr<Matmul>> matmuls_;
};

namespace {
bool has_isa(dnnl_cpu_isa_t wanted) {  // ISA numbers are bit sets, and AMX includes the bits of AVX-512 BF16
  return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

/// With AMX, oneDNN 2.6's kernel for sums of 63 products and less than 64 columns multiplies tiles whose shapes do not
/// match, for some numbers of rows from 69: an illegal instruction. Of 23,000 random products of other sums, none did.
bool crashes_amx(const Product& product) { return product.k() == 63 && has_isa(dnnl_cpu_isa_avx512_core_amx); }

MatmulCache& matmuls_of(const Stream& stream) {
  if (!stream.cache()) stream.cache() = std::make_unique<MatmulCache>();
  return static_cast<MatmulCache&>(*stream.cache());
}
}  // namespace

bool has_matmul(const Stream& stream, const Product& product, const Tensor& bias) {
  if (product.a.tensor.dtype() != DType::bf16 || product.c.dtype() == DType::f16) return false;
  if (!has_isa(dnnl_cpu_isa_avx512_core_bf16) || crashes_amx(product)) return false;
  return with_errors([&] { return bool(matmuls_of(stream).find(product, bias, stream.threads()).descriptor); });
}

void multiply_matmul(Stream& stream, Tensor work, const Product& product, const Tensor& bias) {
  with_errors([&] {
    MatmulCache& cache = matmuls_of(stream);
    cache.execute(cache.find(product, bias, stream.threads()), work, product, bias);
  });
}

std::size_t multiply_matmul_work(const Stream& stream, const Product& product, const Tensor& bias) {
  return with_errors(
      [&] { return matmuls_of(stream).find(product, bias, stream.threads()).descriptor.scratchpad_desc().get_size(); });
}

}  // namespace mtl::cpu
