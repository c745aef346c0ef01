// Attention's forward pass with cuDNN, in the form that its flash attention engines recognize:
//   S = scale Q K^T, masked where the key comes after the query;  M = max S;  E = exp(S - M);  L = sum E
//   logsumexp = M + log L;  O = (E / L) V
// The engines keep S, E and E / L on chip. An engine is compiled at the first call with a given shape, which takes
// about a second.
#include "kernels/attention_cudnn_cuda.h"

#include <algorithm>
#include <limits>
#include <map>

#include "device/cuda_memory.h"
#include "kernels/attention_cuda.h"
#include "kernels/attention_variant.h"

namespace mtl::cuda {

CudnnAttentionShape::CudnnAttentionShape(const AttentionInput& in) : dtype(in.qkv.q.tensor.dtype()) {
  const AttentionSizes s = in.sizes();
  const bool has_one_stride = s.heads == 1 || s.groups == 1, per_sequence = !has_one_stride && s.batch < s.groups;
  runs = has_one_stride ? 1 : std::min(s.batch, s.groups);
  batch = has_one_stride ? s.batch : std::max(s.batch, s.groups);
  length = s.queries;
  heads = has_one_stride ? s.groups * s.heads : s.heads;
  key_heads = has_one_stride ? s.groups : 1;
  dim = s.dim;
  const auto strides = [&](std::int64_t of_sequence, std::int64_t of_group, std::int64_t of_head, std::int64_t row) {
    return Strides{.batch = per_sequence ? of_group : of_sequence,
                   .head = s.heads == 1 ? of_group : of_head,
                   .row = row,
                   .run = per_sequence ? of_sequence : of_group};
  };
  const auto strides_of = [&](const HeadSlice& slice) {
    const std::int64_t group = slice.tensor.size(3) * dim, row = s.groups * group;
    return strides(length * row, group, slice.count == 1 ? group : dim, row);
  };
  q = strides_of(in.qkv.q);
  k = strides_of(in.qkv.k);
  v = strides_of(in.qkv.v);
  const std::int64_t row = s.groups * s.heads * dim;
  out = strides(length * row, s.heads * dim, dim, row);
  logsumexp = strides(s.groups * s.heads * length, s.heads * length, length, 1);
}

CudnnAttentionGraph::CudnnAttentionGraph(const Cudnn& lib, const CudnnAttentionShape& shape) : graph(lib) {
  const std::int64_t B = shape.batch, H = shape.heads, G = shape.key_heads, T = shape.length, D = shape.dim;
  const cudnnDataType_t type = shape.dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const CudnnGraph::Dims scores{B, H, T, T}, rows{B, H, T, 1};
  const auto temporary = [&](cudnnDataType_t dtype = CUDNN_DATA_FLOAT) { return graph.add_temporary(dtype, scores); };
  q = graph.add_tensor(type, {B, H, T, D}, {shape.q.batch, shape.q.head, shape.q.row, 1});
  k = graph.add_tensor(type, {B, G, D, T}, {shape.k.batch, shape.k.head, 1, shape.k.row});  // transposed
  v = graph.add_tensor(type, {B, G, T, D}, {shape.v.batch, shape.v.head, shape.v.row, 1});
  out = graph.add_tensor(type, {B, H, T, D}, {shape.out.batch, shape.out.head, shape.out.row, 1});
  logsumexp = graph.add_tensor(CUDNN_DATA_FLOAT, rows, {shape.logsumexp.batch, shape.logsumexp.head, 1, 1});
  scale = graph.add_scalar();
  masked_score = graph.add_scalar();

  const std::int64_t products = temporary(), scaled = temporary(), S = temporary();
  graph.matmul(q, k, products);
  graph.pointwise(CUDNN_POINTWISE_MUL, {products, scale}, scaled);
  const std::int64_t query = temporary(CUDNN_DATA_INT32), key = temporary(CUDNN_DATA_INT32),
                     is_visible = temporary(CUDNN_DATA_BOOLEAN);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scaled}, query, 2);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scaled}, key, 3);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, is_visible);
  graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scaled, masked_score, is_visible}, S);

  const std::int64_t M = graph.add_temporary(CUDNN_DATA_FLOAT, rows), L = graph.add_temporary(CUDNN_DATA_FLOAT, rows),
                     log = graph.add_temporary(CUDNN_DATA_FLOAT, rows);
  const std::int64_t shifted = temporary(), E = temporary(), P = temporary(type);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, S, M);
  graph.pointwise(CUDNN_POINTWISE_SUB, {S, M}, shifted);
  graph.pointwise(CUDNN_POINTWISE_EXP, {shifted}, E);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, E, L);
  graph.pointwise(CUDNN_POINTWISE_LOG, {L}, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, {M, log}, logsumexp);
  graph.pointwise(CUDNN_POINTWISE_DIV, {E, L}, P);
  graph.matmul(P, v, out);
}

namespace {

struct Compiled {
  CudnnAttentionGraph operands;
  CudnnPlan plan;
};

/// A handle for the current GPU.
class Handle {
 public:
  explicit Handle(const Cudnn& lib) : lib_(lib) { expect_cudnn_success(lib, lib.create(&raw_), "start"); }
  ~Handle() { lib_.destroy(raw_); }
  Handle(const Handle&) = delete;
  cudnnHandle_t raw() const { return raw_; }

 private:
  const Cudnn& lib_;
  cudnnHandle_t raw_ = nullptr;
};

/// A stream's handle and compiled plans.
class Library : public StreamCache {
 public:
  explicit Library(const Stream& stream) {
    expect_cudnn_success(lib_, lib_.set_stream(handle_.raw(), stream.handle()), "use a stream");
  }

  void forward(const Tensor& work, const Tensor& out, const Tensor& logsumexp, const AttentionInput& in) {
    const CudnnAttentionShape shape(in);
    const auto& [operands, plan] = find(shape);
    auto* statistics = static_cast<std::byte*>(logsumexp.exists() ? logsumexp.raw() : work.raw());
    if (!logsumexp.exists()) statistics += kCudnnWorkspace;
    // Not -inf: S - M would be NaN in a tile whose keys are all masked.
    constexpr float kMasked = std::numeric_limits<float>::lowest();
    const auto size = static_cast<std::int64_t>(size_of(shape.dtype));
    for (std::int64_t run = 0; run < shape.runs; ++run) {
      const auto of_run = [&](const Tensor& tensor, std::int64_t first, const CudnnAttentionShape::Strides& strides) {
        return static_cast<std::byte*>(tensor.raw()) + (first * shape.dim + run * strides.run) * size;
      };
      plan.run(handle_.raw(),
               {{operands.q, of_run(in.qkv.q.tensor, in.qkv.q.first, shape.q)},
                {operands.k, of_run(in.qkv.k.tensor, in.qkv.k.first, shape.k)},
                {operands.v, of_run(in.qkv.v.tensor, in.qkv.v.first, shape.v)},
                {operands.out, of_run(out, 0, shape.out)},
                {operands.logsumexp, statistics + run * shape.logsumexp.run * std::int64_t{sizeof(float)}},
                {operands.scale, &in.scale},
                {operands.masked_score, &kMasked}},
               work.raw());
    }
  }

 private:
  const Compiled& find(const CudnnAttentionShape& shape) {
    const auto known = plans_.find(shape);
    if (known != plans_.end()) return known->second;
    CudnnAttentionGraph operands(lib_, shape);
    CudnnPlan plan = operands.graph.compile(kCudnnWorkspace, handle_.raw());
    return plans_.emplace(shape, Compiled{std::move(operands), std::move(plan)}).first->second;
  }

  Cudnn lib_{};
  Handle handle_{lib_};
  std::map<CudnnAttentionShape, Compiled> plans_;
};

}  // namespace

bool has_cudnn() { return Cudnn::is_installed(); }

void attention_forward_cudnn(Stream& stream, const Tensor& work, const Tensor& out, const Tensor& logsumexp,
                             const AttentionInput& in) {
  if (stream.attention_cache() == nullptr) stream.attention_cache() = std::make_unique<Library>(stream);
  static_cast<Library&>(*stream.attention_cache()).forward(work, out, logsumexp, in);
}

std::string attention_library() { return has_cudnn() ? cat("cuDNN ", Cudnn().version()) : "no cuDNN"; }

}  // namespace mtl::cuda
