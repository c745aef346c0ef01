// The product is oneDNN's; the epilogues are one pass of ours over the rows of C.
#include <dnnl.h>
#include <omp.h>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Bias and GELU over elements of one row of C: c = c + bias, then gelu or times gelu'.
void finish_row(float* c, const float* bias, float* gelu_aux, const float* dgelu_aux, std::size_t n) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR {
    VecF32 x = lanes.load(c + i);
    if (bias != nullptr) x = hn::Add(x, lanes.load(bias + i));
    if (gelu_aux != nullptr) {
      lanes.store(x, gelu_aux + i);
      x = gelu(x);
    }
    if (dgelu_aux != nullptr) x = hn::Mul(x, gelu_derivative(lanes.load(dgelu_aux + i)));
    lanes.store(x, c + i);
  });
}

/// out = or += the column sums of dy (rows, width), for some columns, in blocks of 64 rows.
void column_sums(float* out, bool accumulate, const Tensor& dy, Range columns) {
  constexpr std::int64_t kRows = 64, kMaxColumns = 128;
  const std::int64_t width = dy.size(-1);
  const auto n = static_cast<std::size_t>(columns.size());
  HWY_ALIGN float total[kMaxColumns] = {}, block[kMaxColumns];
  const auto add_to = [n](float* sums, const float* values) HWY_ATTR {
    sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(hn::Add(lanes.load(sums + i), lanes.load(values + i)), sums + i); });
  };
  for (std::int64_t row = 0; row < dy.row_count(); row += kRows) {
    std::memset(block, 0, sizeof(block));
    for (std::int64_t r = row; r < std::min(dy.row_count(), row + kRows); ++r) {
      add_to(block, dy.data<float>() + r * width + columns.begin);
    }
    add_to(total, block);
  }
  if (!accumulate) std::memset(out + columns.begin, 0, n * sizeof(float));
  add_to(out + columns.begin, total);
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {
HWY_EXPORT(finish_row);
HWY_EXPORT(column_sums);

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
  ThreadLimit limit(stream.threads());
  dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.tensor.data<float>(),
                                    a.tensor.size(-1), b.tensor.data<float>(), b.tensor.size(-1),
                                    mode == GradMode::accumulate ? 1.0f : 0.0f, c.data<float>(), n);
  require(status == dnnl_success, "dnnl_sgemm failed with status ", static_cast<int>(status));
}

template <class T>
T* at_row(const Tensor& tensor, std::int64_t row) {
  return tensor.exists() ? tensor.data<T>() + row * tensor.size(-1) : nullptr;
}
}  // namespace

void gemm(Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode, const Epilogue& epilogue) {
  multiply(stream, c, a, b, mode);
  if (epilogue.bias.exists() || epilogue.gelu_aux.exists() || epilogue.dgelu_aux.exists()) {
    const auto width = static_cast<std::size_t>(c.size(-1));
    parallel_rows(stream.threads(), c.row_count(), c.size(-1), [&](Range rows) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        HWY_DYNAMIC_DISPATCH(finish_row)
        (at_row<float>(c, row), at_row<float>(epilogue.bias, 0), at_row<float>(epilogue.gelu_aux, row),
         at_row<float>(epilogue.dgelu_aux, row), width);
      }
    });
  }
  if (!epilogue.dbias.wanted()) return;
  Blocks columns{a.tensor.size(-1), 128};
  parallel_for(stream.threads(), columns.number(), a.tensor.numel(), [&](std::int64_t block) {
    HWY_DYNAMIC_DISPATCH(column_sums)
    (epilogue.dbias.tensor.data<float>(), epilogue.dbias.mode == GradMode::accumulate, a.tensor, columns[block]);
  });
}

}  // namespace mtl::cpu
#endif
