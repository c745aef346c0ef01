// cuBLASLt matmuls. Each uses the algorithm that was measured to be the fastest for its shape.
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "device/cuda_memory.h"
#include "device/measure.h"
#include "kernels/gemm_plan_cuda.h"

namespace mtl::cuda {

namespace {

/// Matmuls with equal keys share a plan.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DType, DType, cublasLtEpilogue_t,
                       std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool>;

/// Returns the smallest alignment among an epilogue's operands, except C.
std::uint32_t epilogue_alignment(const FusedEpilogue& epilogue) {
  return std::min({alignment_of(epilogue.bias), alignment_of(epilogue.aux), alignment_of(epilogue.dbias)});
}

Key key_of(const Product& p, const FusedEpilogue& epilogue, bool tf32) {
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
          alignment_of(p.c),
          epilogue_alignment(epilogue),
          tf32};
}

const char* epilogue_name(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
      return ", bias";
    case CUBLASLT_EPILOGUE_GELU_AUX:
      return ", gelu";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return ", bias, gelu";
    case CUBLASLT_EPILOGUE_DGELU:
      return ", gelu backward";
    case CUBLASLT_EPILOGUE_BGRADB:
      return ", bias gradient";
    default:
      return "";
  }
}

/// Returns the key in Choices: "gemm 768x3072x1024 nt bfloat16 -> bfloat16, bias, gelu, aligned to 256 256 256 256".
std::string choices_key(const Product& p, const FusedEpilogue& epilogue, bool tf32) {
  return cat("gemm ", p.m(), "x", p.n(), "x", p.k(), " ", p.a.transposed ? "t" : "n", p.b.transposed ? "t" : "n", " ",
             tf32 && p.a.tensor.dtype() == DType::f32 ? "tf32" : name_of(p.a.tensor.dtype()), " -> ",
             name_of(p.c.dtype()), p.accumulate ? ", accumulated" : "", epilogue_name(epilogue_of(epilogue)),
             ", aligned to ", alignment_of(p.a.tensor), " ", alignment_of(p.b.tensor), " ", alignment_of(p.c), " ",
             epilogue_alignment(epilogue));
}

struct ReleaseMemory {
  void operator()(std::byte* memory) const { release(memory); }
};
/// Returns memory for one measurement, outside the run's memory plan. Null if the GPU has no free memory.
std::unique_ptr<std::byte, ReleaseMemory> temporary_memory(std::size_t bytes) {
  try {
    return std::unique_ptr<std::byte, ReleaseMemory>(bytes == 0 ? nullptr : allocate(bytes));
  } catch (const Error&) {
    return nullptr;
  }
}

constexpr const char* kUnfused = "apart";  // in Choices: the epilogue runs after the product

/// A cuBLASLt session and its plans. Each stream caches one Library.
class Library : public StreamCache {
 public:
  /// As cuda::multiply().
  bool multiply(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue) {
    if (run(stream, workspace, product, epilogue, product.c.raw())) return true;
    if (epilogue_of(epilogue) != CUBLASLT_EPILOGUE_DEFAULT) return false;
    std::vector<std::string> failures;
    for (const auto& [algorithm, why] : find(stream, workspace, product, epilogue).failures())
      failures.push_back(cat(algorithm, ": ", why));
    fail(Exit::failure, failures.empty() ? "cuBLASLt has no algorithm for " : "cuBLASLt cannot launch ",
         choices_key(product, epilogue, stream.tf32()), failures.empty() ? "" : "; it tried ", join(failures, "; "),
         "; to see the reasons, run with CUBLASLT_LOG_LEVEL=2, and try another version of cuBLAS ",
         session_.lt.version() / 10000);
  }

 private:
  /// Writes the result to `d`. If an algorithm fails, the next takes its place. Returns false if none is left.
  bool run(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue, void* d) {
    GemmPlan& plan = find(stream, workspace, product, epilogue);
    while (plan.has_algorithm()) {
      if (runs(plan, stream, workspace, product, epilogue, d)) return true;
      choose(plan, stream, workspace, product, epilogue);
    }
    return false;
  }

  GemmPlan& find(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue) {
    const auto [at, is_new] =
        plans_.try_emplace(key_of(product, epilogue, stream.tf32()), session_, product, epilogue, stream.tf32());
    if (is_new) choose(at->second, stream, workspace, product, epilogue);
    return at->second;
  }

  /// Adopts the stored choice if the library accepts it, otherwise the fastest algorithm that the library suggests.
  void choose(GemmPlan& plan, Stream& stream, const Tensor& workspace, const Product& product,
              const FusedEpilogue& epilogue) {
    const std::string key = choices_key(product, epilogue, stream.tf32());
    if (use(plan, stream.choices().find(key).value_or(""), epilogue)) return;
    const std::vector<cublasLtMatmulAlgo_t> algorithms = plan.find_algorithms(product, kSuggestions);
    if (algorithms.empty() || !is_supported(epilogue)) return;
    std::vector<std::string> candidates;
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      const std::string text = plan.describe(algorithm).text();
      if (use(plan, text, epilogue)) candidates.push_back(text);
    }
    if (candidates.empty()) {
      for (const cublasLtMatmulAlgo_t& algorithm : algorithms)
        if (plan.use(algorithm)) return;  // not stored: its text does not restore it
      return;
    }
    if (epilogue.launch_unfused) candidates.emplace_back(kUnfused);
    const bool waits = !stream.is_captured();
    const auto temporary =
        temporary_memory(waits && product.accumulate ? product.c.bytes() : 0);  // measuring must not add to C
    void* d = product.accumulate ? temporary.get() : product.c.raw();
    if (!waits || d == nullptr) {  // not measured, so not stored: another run may be able to measure
      use(plan, candidates.front(), epilogue);
      return;
    }
    const std::string best = stream.choices().choose(key, candidates, [&](const std::string& candidate) {
      if (candidate == kUnfused) return unfused_seconds(stream, workspace, product, epilogue, d);
      if (!use(plan, candidate, epilogue)) return std::numeric_limits<double>::infinity();
      return seconds(plan, stream, workspace, product, epilogue, d);
    });
    if (!use(plan, best, epilogue)) choose(plan, stream, workspace, product, epilogue);  // all have failed
  }

  /// Adopts a choice. Returns false if it cannot be used for this matmul.
  static bool use(GemmPlan& plan, const std::string& choice, const FusedEpilogue& epilogue) {
    if (choice == kUnfused && epilogue.launch_unfused) {
      plan.use_none();
      return true;
    }
    const std::optional<GemmAlgorithm> algorithm = GemmAlgorithm::parse(choice);
    return algorithm && plan.use(*algorithm);
  }

  double unfused_seconds(Stream& stream, const Tensor& workspace, const Product& product, const FusedEpilogue& epilogue,
                         void* d) {
    if (!run(stream, workspace, product, {}, d)) return std::numeric_limits<double>::infinity();
    return seconds(find(stream, workspace, product, {}), stream, workspace, product, {}, d) +
           seconds_of(stream, epilogue.launch_unfused);
  }

  /// Returns how long the plan's algorithm takes, or infinity if it fails.
  double seconds(GemmPlan& plan, Stream& stream, const Tensor& workspace, const Product& product,
                 const FusedEpilogue& epilogue, void* d) {
    bool is_usable = true;
    const auto body = [&] { is_usable = is_usable && runs(plan, stream, workspace, product, epilogue, d); };
    if (!is_warm_) warm_up(stream, body);
    is_warm_ |= is_usable;
    const double out = seconds_of(stream, body);
    return is_usable ? out : std::numeric_limits<double>::infinity();
  }

  /// Runs the plan's algorithm. If it fails, records that, and returns false.
  static bool runs(GemmPlan& plan, Stream& stream, const Tensor& workspace, const Product& product,
                   const FusedEpilogue& epilogue, void* d) {
    if (plan.run(stream, workspace, product, epilogue, d)) return true;
    const auto& [algorithm, why] = plan.failures().back();
    stream.choices().refuse(choices_key(product, epilogue, stream.tf32()), algorithm, why);
    return false;
  }

  /// cuBLASLt requires aux rows to be multiples of 8 elements.
  static bool is_supported(const FusedEpilogue& epilogue) {
    return !epilogue.aux.exists() || epilogue.aux.size(-1) % 8 == 0;
  }

  static constexpr int kSuggestions = 8;
  CublasLtSession session_;
  std::map<Key, GemmPlan> plans_;
  bool is_warm_ = false;  // warmed up once
};

}  // namespace

bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue) {
  if (stream.cache() == nullptr) stream.cache() = std::make_unique<Library>();
  return static_cast<Library&>(*stream.cache()).multiply(stream, workspace, product, epilogue);
}

std::string product_library() { return cat("cuBLASLt ", CublasLt().version()); }

}  // namespace mtl::cuda
