// Matmuls with 16-bit tensors for which the CPU has no instructions. C is split into tiles. For one piece of K at a
// time, a thread widens the parts of A and B that its tile needs to fp32, and multiplies them with oneDNN's fp32 GEMM
// on one thread. At the end, the epilogue rounds the tile's sums once.
//
// A 512 x 512 tile with a piece of 512 along K reads and writes 1.5 million elements for 134 million multiplications,
// so widening costs about 3 %. The three 1 MB buffers stay in L2 and L3.
#include <dnnl.h>

#include <atomic>

#include "kernels/gemm_cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu_widened.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Widens part of a matrix into `to` (rows, columns), with row stride `stride` in elements.
void widen_part(const Tensor& from, Range rows, Range columns, float* to, std::int64_t stride) {
  with_float(from.dtype(), [&](auto t) HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto* in = from.data<decltype(t)>() + row * from.size(1) + columns.begin;
      float* out = to + (row - rows.begin) * stride;
      sweep(columns.size(), [=](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(in + i), out + i); });
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

constexpr std::int64_t kTileSide = 512, kSmallestSide = 64;

std::int64_t pieces_of(std::int64_t count, std::int64_t piece) { return (count + piece - 1) / piece; }

/// Divides [0, count) into about `pieces` blocks of equal size, a multiple of 16.
Blocks even_blocks(std::int64_t count, std::int64_t pieces) { return {count, 16 * pieces_of(count, 16 * pieces)}; }

/// Blocks for the rows and columns of C, and for K. With many threads, tiles get smaller so that each thread has some.
struct Tiles {
  Blocks rows, columns, depth;

  Tiles(const Product& product, int threads) : depth(even_blocks(product.k(), pieces_of(product.k(), kTileSide))) {
    std::int64_t down = pieces_of(product.m(), kTileSide), across = pieces_of(product.n(), kTileSide);
    rows = even_blocks(product.m(), down), columns = even_blocks(product.n(), across);
    while (number() % threads != 0 && number() < 4 * threads &&
           std::max(rows.block_size, columns.block_size) > kSmallestSide) {
      if (rows.block_size > columns.block_size)
        rows = even_blocks(product.m(), down *= 2);
      else
        columns = even_blocks(product.n(), across *= 2);
    }
  }
  std::int64_t number() const { return rows.number() * columns.number(); }
};

/// Returns a buffer's row stride, padded so that rows do not share cache sets.
std::int64_t padded(std::int64_t width) { return width + 16; }

/// Part of an operand, widened to fp32 in the thread's buffer. An fp32 operand is read in place.
class WidenedPart {
 public:
  /// `rows` and `columns` are the blocks of op(X).
  WidenedPart(const Operand& x, const Blocks& rows, const Blocks& columns) : x_(x) {
    const Blocks &down = x.transposed ? columns : rows, &across = x.transposed ? rows : columns;
    if (x.tensor.dtype() == DType::f32) return;
    stride_ = padded(across.block_size);
    elements_ = down.block_size * stride_;
  }
  std::int64_t elements() const { return elements_; }
  void use(float* area) { area_ = area; }
  std::int64_t stride() const { return elements_ == 0 ? x_.tensor.size(1) : stride_; }
  /// Returns the part with these rows and columns of op(X), in the layout of X.
  const float* read(Range rows, Range columns) {
    if (x_.transposed) std::swap(rows, columns);
    if (elements_ == 0) return x_.tensor.data<float>() + rows.begin * x_.tensor.size(1) + columns.begin;
    if (rows.begin != row_ || columns.begin != column_) {
      MTL_DISPATCH(widen_part)(x_.tensor, rows, columns, area_, stride_);
      row_ = rows.begin, column_ = columns.begin;
    }
    return area_;
  }

 private:
  Operand x_;
  float* area_ = nullptr;
  std::int64_t stride_ = 0, elements_ = 0;
  std::int64_t row_ = -1, column_ = -1;  // where the buffered part starts in X
};

/// Computes tiles on one thread.
class TileMultiplier {
 public:
  TileMultiplier(const Product& product, const Tiles& tiles)
      : product_(product),
        tiles_(tiles),
        a_(product.a, tiles.rows, tiles.depth),
        b_(product.b, tiles.depth, tiles.columns),
        stride_(in_place() ? product.n() : padded(tiles.columns.block_size)) {}
  /// Returns the buffer size that a thread needs, in bytes.
  std::size_t work() const {
    const std::int64_t sums = in_place() ? 0 : tiles_.rows.block_size * stride_;
    return (a_.elements() + b_.elements() + sums) * sizeof(float);
  }
  void use(float* area) {
    a_.use(area);
    b_.use(area + a_.elements());
    sums_ = area + a_.elements() + b_.elements();
  }
  /// Computes a tile and applies the epilogue to it.
  dnnl_status_t multiply(std::int64_t number, const Epilogue& epilogue) {
    // Tiles in the same column block are consecutive, so the part of B may already be in the buffer.
    const Range rows = tiles_.rows[number % tiles_.rows.number()];
    const Range columns = tiles_.columns[number / tiles_.rows.number()];
    float* sums = in_place() ? product_.c.data<float>() + rows.begin * product_.n() + columns.begin : sums_;
    for (std::int64_t piece = 0; piece < tiles_.depth.number(); ++piece) {
      const Range depth = tiles_.depth[piece];
      const float *a = a_.read(rows, depth), *b = b_.read(depth, columns);
      const bool adds = piece > 0 || (in_place() && product_.accumulate);
      const dnnl_status_t status =
          dnnl_sgemm(product_.a.transposed ? 'T' : 'N', product_.b.transposed ? 'T' : 'N', rows.size(), columns.size(),
                     depth.size(), 1.0f, a, a_.stride(), b, b_.stride(), adds ? 1.0f : 0.0f, sums, stride_);
      if (status != dnnl_success) return status;
    }
    if (!in_place() || epilogue.changes_c())
      finish_tile(product_.c, product_.accumulate && !in_place(), epilogue,
                  {.rows = rows, .columns = columns, .values = sums, .dtype = DType::f32, .stride = stride_});
    return dnnl_success;
  }

 private:
  bool in_place() const { return product_.c.dtype() == DType::f32; }

  const Product& product_;
  const Tiles& tiles_;
  WidenedPart a_, b_;
  float* sums_ = nullptr;
  std::int64_t stride_;  // row stride of `sums`
};

std::int64_t workers_of(const Stream& stream, const Tiles& tiles) {
  return std::min<std::int64_t>(stream.threads(), tiles.number());
}
}  // namespace

void multiply_widened(Stream& stream, Tensor work, const Product& product, const Epilogue& epilogue) {
  const Tiles tiles(product, stream.threads());
  const std::int64_t workers = workers_of(stream, tiles);
  const Blocks tiles_of_worker{tiles.number(), pieces_of(tiles.number(), workers)};
  std::atomic<int> failure{dnnl_success};
  ThreadLimit limit(1);
  parallel_for(stream.threads(), workers, product.c.numel() * product.k(), [&](std::int64_t worker) {
    TileMultiplier multiplier(product, tiles);
    multiplier.use(work_as<float>(work) + worker * static_cast<std::int64_t>(multiplier.work() / sizeof(float)));
    for (std::int64_t tile = tiles_of_worker[worker].begin; tile < tiles_of_worker[worker].end; ++tile) {
      const dnnl_status_t status = multiplier.multiply(tile, epilogue);
      if (status != dnnl_success) failure = status;
    }
  });
  require(failure == dnnl_success, "dnnl_sgemm failed with status ", failure.load());
}

std::size_t multiply_widened_work(const Stream& stream, const Product& product) {
  const Tiles tiles(product, stream.threads());
  return TileMultiplier(product, tiles).work() * workers_of(stream, tiles);
}

}  // namespace mtl::cpu
#endif
