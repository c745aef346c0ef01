// The product is oneDNN's, but for a few rows times a transposed B (decoding): that is bound by reading B, and oneDNN
// would copy B first. The epilogues are one pass of ours over the rows of C.
#include <dnnl.h>
#include <omp.h>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu.cpp"
#include "kernels/activation_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// One row of C: c = c + bias, then the function of it or times the derivative. An operand that is left out is null.
template <class Function>
void finish_row_by(float* c, const float* bias, float* kept, const float* before, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR {
    VecF32 x = lanes.load(c + i);
    if (bias != nullptr) x = hn::Add(x, lanes.load(bias + i));
    if (kept != nullptr) {
      lanes.store(x, kept + i);
      x = Function::value(x);
    }
    if (before != nullptr) x = hn::Mul(x, Function::derivative(lanes.load(before + i)));
    lanes.store(x, c + i);
  });
}

void finish_row(Activation activation, float* c, const float* bias, float* kept, const float* before, std::size_t n) {
  with_activation(activation,
                  [&](auto function) HWY_ATTR { finish_row_by<decltype(function)>(c, bias, kept, before, n); });
}

/// sums[0..3] = a0 . w0, a0 . w1, a1 . w0, a1 . w1 over k elements.
HWY_INLINE void dot_tile(const float* a0, const float* a1, const float* w0, const float* w1, std::size_t k,
                         float* sums) {
  VecF32 s00 = set(0), s01 = s00, s10 = s00, s11 = s00;
  sweep(k, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 x0 = lanes.load(a0 + i), x1 = lanes.load(a1 + i), y0 = lanes.load(w0 + i), y1 = lanes.load(w1 + i);
    s00 = hn::MulAdd(x0, y0, s00);
    s01 = hn::MulAdd(x0, y1, s01);
    s10 = hn::MulAdd(x1, y0, s10);
    s11 = hn::MulAdd(x1, y1, s11);
  });
  int n = 0;
  for (const VecF32 s : {s00, s01, s10, s11}) sums[n++] = hn::GetLane(hn::SumOfLanes(F32(), s));
}

/// Some columns of C = or += a W^T for a single row, four at a time; an end of less than four computes its last one
/// again.
void multiply_one_row(const Tensor& c, const Tensor& a, const Tensor& w, bool accumulate, Range columns) {
  const std::int64_t k = a.size(-1);
  const float *x = a.data<float>(), *right = w.data<float>();
  for (std::int64_t j = columns.begin; j < columns.end; j += 4) {
    const float* row[4];
    for (int q = 0; q < 4; ++q) row[q] = right + std::min(j + q, columns.end - 1) * k;
    VecF32 s0 = set(0), s1 = s0, s2 = s0, s3 = s0;
    sweep(static_cast<std::size_t>(k), [&](std::size_t i, auto lanes) HWY_ATTR {
      const VecF32 left = lanes.load(x + i);
      s0 = hn::MulAdd(left, lanes.load(row[0] + i), s0);
      s1 = hn::MulAdd(left, lanes.load(row[1] + i), s1);
      s2 = hn::MulAdd(left, lanes.load(row[2] + i), s2);
      s3 = hn::MulAdd(left, lanes.load(row[3] + i), s3);
    });
    float* out = c.data<float>() + j;
    int q = 0;
    for (const VecF32 s : {s0, s1, s2, s3}) {
      if (j + q < columns.end) out[q] = (accumulate ? out[q] : 0.0f) + hn::GetLane(hn::SumOfLanes(F32(), s));
      ++q;
    }
  }
}

/// The same for a few rows: two rows of W stay in the first cache while all rows of A pass.
void multiply_few_rows(const Tensor& c, const Tensor& a, const Tensor& w, bool accumulate, Range columns) {
  const std::int64_t rows = c.row_count(), n = c.size(-1), k = a.size(-1);
  if (rows == 1) return multiply_one_row(c, a, w, accumulate, columns);
  for (std::int64_t j = columns.begin; j < columns.end; j += 2) {
    const std::int64_t next = std::min(j + 1, columns.end - 1);  // an odd end computes its last column twice
    for (std::int64_t i = 0; i < rows; i += 2) {
      const std::int64_t below = std::min(i + 1, rows - 1);
      const float *left = a.data<float>(), *right = w.data<float>();
      float sums[4];
      dot_tile(left + i * k, left + below * k, right + j * k, right + next * k, static_cast<std::size_t>(k), sums);
      float *upper = c.data<float>() + i * n, *lower = c.data<float>() + below * n;
      const auto put = [accumulate](float& to, float sum) { to = accumulate ? to + sum : sum; };
      put(upper[j], sums[0]);
      if (next != j) put(upper[next], sums[1]);
      if (below != i) put(lower[j], sums[2]);
      if (below != i && next != j) put(lower[next], sums[3]);
    }
  }
}

/// sums (width) = the sum of some rows of dy (rows, width).
void sum_rows(const Tensor& dy, Range rows, float* sums) {
  const std::int64_t width = dy.size(-1);
  std::fill_n(sums, width, 0.0f);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = dy.data<float>() + row * width;
    sweep(static_cast<std::size_t>(width), [=](std::size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(sums + i), lanes.load(from + i)), sums + i);
    });
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {
HWY_EXPORT(finish_row);
HWY_EXPORT(sum_rows);
HWY_EXPORT(multiply_few_rows);

constexpr std::int64_t kFewRows = 8;

/// oneDNN asks OpenMP how many threads it may use.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadLimit() { omp_set_num_threads(before_); }
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int before_;
};

void multiply(Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode) {
  const std::int64_t m = c.row_count(), n = c.size(-1);
  const std::int64_t k = a.transposed ? a.tensor.row_count() : a.tensor.size(-1);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (mode == GradMode::overwrite) cpu::fill_zero(stream, c);
    return;
  }
  if (m <= kFewRows && !a.transposed && b.transposed) {
    Blocks columns{n, 32};
    const bool accumulate = mode == GradMode::accumulate;
    const Tensor left = a.tensor.view({m, k}), right = b.tensor.view({n, k});
    parallel_for(stream.threads(), columns.number(), n * k, [&](std::int64_t block) {
      HWY_DYNAMIC_DISPATCH(multiply_few_rows)(c, left, right, accumulate, columns[block]);
    });
    return;
  }
  ThreadLimit limit(stream.threads());
  dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f,
                                    a.tensor.data<float>(), a.tensor.size(-1), b.tensor.data<float>(),
                                    b.tensor.size(-1), mode == GradMode::accumulate ? 1.0f : 0.0f, c.data<float>(), n);
  require(status == dnnl_success, "dnnl_sgemm failed with status ", static_cast<int>(status));
}

template <class T>
T* at_row(const Tensor& tensor, std::int64_t row) {
  return tensor.exists() ? tensor.data<T>() + row * tensor.size(-1) : nullptr;
}

/// The epilogue's bias and activation.
void finish(Stream& stream, Tensor c, const Epilogue& epilogue) {
  const Tensor none, kept = epilogue.act == Epilogue::Act::forward ? epilogue.aux : none,
                     before = epilogue.act == Epilogue::Act::backward ? epilogue.aux : none;
  const auto width = static_cast<std::size_t>(c.size(-1));
  parallel_rows(stream.threads(), c.row_count(), c.size(-1), [&](Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      HWY_DYNAMIC_DISPATCH(finish_row)
      (epilogue.activation, at_row<float>(c, row), at_row<float>(epilogue.bias, 0), at_row<float>(kept, row),
       at_row<float>(before, row), width);
    }
  });
}

/// The rows of dy whose sums are added first.
Blocks bias_blocks(const Tensor& dy) { return {dy.row_count(), 64}; }

void sum_bias_gradient(Stream& stream, Tensor work, const Grad& dbias, const Tensor& dy) {
  const Blocks blocks = bias_blocks(dy);
  auto* sums = work_as<float>(work);
  parallel_for(stream.threads(), blocks.number(), dy.numel(), [&](std::int64_t block) {
    HWY_DYNAMIC_DISPATCH(sum_rows)(dy, blocks[block], sums + block * dy.size(-1));
  });
  sum_partials(stream, dbias, work, 0, dy.size(-1));
}
}  // namespace

void gemm(Stream& stream, Tensor work, Tensor c, const Operand& a, const Operand& b, GradMode mode,
          const Epilogue& epilogue) {
  multiply(stream, c, a, b, mode);
  if (epilogue.changes_c()) finish(stream, c, epilogue);
  if (epilogue.dbias.wanted()) sum_bias_gradient(stream, work, epilogue.dbias, a.tensor);
}

std::size_t gemm_work(const Stream&, Tensor, const Operand& a, const Operand&, const Epilogue& epilogue) {
  if (!epilogue.dbias.wanted()) return 0;
  return static_cast<std::size_t>(bias_blocks(a.tensor).number() * a.tensor.size(-1)) * sizeof(float);
}

}  // namespace mtl::cpu
#endif
