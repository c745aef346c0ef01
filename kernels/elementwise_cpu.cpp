// Elementwise kernels over flat ranges, which are split into blocks. All kernels are memory-bound.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/elementwise_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void add_range(Tensor out, Tensor in, std::int64_t begin, std::size_t n) {
  with_float(out.dtype(), [&]<class T>(T) HWY_ATTR {
    T* to = out.data<T>() + begin;
    const T* from = in.data<T>() + begin;
    sweep(n, [=](std::size_t i, auto lanes)
                 HWY_ATTR { lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i); });
  });
}

double sum_of_squares_of(const float* in, std::size_t n) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const std::size_t step = hn::Lanes(d64);
  auto a = hn::Zero(d64), b = a;
  std::size_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    const auto x = hn::PromoteTo(d64, hn::LoadU(d32, in + i)), y = hn::PromoteTo(d64, hn::LoadU(d32, in + i + step));
    a = hn::MulAdd(x, x, a);
    b = hn::MulAdd(y, y, b);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d64, hn::Add(a, b)));
  for (; i < n; ++i) sum += double(in[i]) * double(in[i]);
  return sum;
}

/// Returns the sum of squares over a range. 16-bit elements are widened a stretch at a time.
double sum_of_squares_range(const Tensor& in, Range range) {
  double sum = 0;
  with_float(in.dtype(), [&]<class T>(T) HWY_ATTR {
    const T* from = in.data<T>() + range.begin;
    const std::size_t n = range.size();
    if constexpr (std::is_same_v<T, float>) {
      sum = sum_of_squares_of(from, n);
    } else {
      constexpr std::size_t kStretch = 512;
      HWY_ALIGN float widened[kStretch];
      for (std::size_t begin = 0; begin < n; begin += kStretch) {
        const std::size_t size = HWY_MIN(kStretch, n - begin);
        sweep(size,
              [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(from + begin + i), widened + i); });
        sum += sum_of_squares_of(widened, size);
      }
    }
  });
  return sum;
}

std::int64_t count_zeros_in(Tensor in, std::int64_t begin, std::size_t n) {
  std::size_t others = 0;  // a partial vector is padded with zeros; a NaN is no zero
  with_float(in.dtype(), [&]<class T>(T) HWY_ATTR {
    const T* from = in.data<T>() + begin;
    sweep(n, [&](std::size_t i, auto lanes)
                 HWY_ATTR { others += hn::CountTrue(F32(), hn::Not(hn::Eq(lanes.load(from + i), set(0)))); });
  });
  return static_cast<std::int64_t>(n - others);
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

constexpr std::int64_t kSumOfSquaresBlock = 65536;

/// Calls body(begin, size) for blocks of [0, count).
template <class Body>
void over_blocks(Stream& stream, std::int64_t count, const Body& body) {
  Blocks blocks{count, kSerialElements};
  parallel_for(stream.threads(), blocks.number(), count,
               [&](std::int64_t block) { body(blocks[block].begin, blocks[block].size()); });
}
}  // namespace

void fill_zero(Stream& stream, Tensor out) {
  auto* to = static_cast<char*>(out.raw());
  over_blocks(stream, static_cast<std::int64_t>(out.bytes()),
              [&](std::int64_t begin, std::size_t n) { std::memset(to + begin, 0, n); });
}

void copy(Stream& stream, Tensor out, Tensor in) {
  auto* to = static_cast<char*>(out.raw());
  const auto* from = static_cast<const char*>(in.raw());
  over_blocks(stream, static_cast<std::int64_t>(out.bytes()),
              [&](std::int64_t begin, std::size_t n) { std::memcpy(to + begin, from + begin, n); });
}

void add(Stream& stream, Tensor out, Tensor in) {
  over_blocks(stream, out.numel(), [&](std::int64_t begin, std::size_t n) {
    MTL_DISPATCH(add_range)(out, in, begin, n);
  });
}

void sum_of_squares(Stream& stream, Tensor work, Tensor out, const std::vector<Tensor>& in) {
  auto* sums = work_as<double>(work);
  double sum = 0;
  for (const Tensor& tensor : in) {
    Blocks blocks{tensor.numel(), kSumOfSquaresBlock};
    parallel_for(stream.threads(), blocks.number(), tensor.numel(),
                 [&](std::int64_t block) { sums[block] = MTL_DISPATCH(sum_of_squares_range)(tensor, blocks[block]); });
    for (std::int64_t block = 0; block < blocks.number(); ++block) sum += sums[block];
  }
  *out.data<double>() = sum;
}

std::size_t sum_of_squares_work(const Stream&, const std::vector<Tensor>& in) {
  std::int64_t most = 0;
  for (const Tensor& tensor : in) most = std::max(most, tensor.numel());
  return Blocks{most, kSumOfSquaresBlock}.number() * sizeof(double);
}

void find_nonfinite(Stream& stream, Tensor found, Tensor in) {
  const auto search = [&](const auto* bits, std::uint32_t exponent) {  // all ones: infinite or NaN
    std::atomic<bool> any{false};
    over_blocks(stream, in.numel(), [&](std::int64_t begin, std::size_t n) {
      std::uint32_t bad = 0;
      for (std::size_t i = 0; i < n; ++i)
        bad |= static_cast<std::uint32_t>((bits[begin + static_cast<std::int64_t>(i)] & exponent) == exponent);
      if (bad != 0) any = true;
    });
    *found.data<std::int32_t>() = any ? 1 : 0;
  };
  if (in.dtype() == DType::f32) return search(static_cast<const std::uint32_t*>(in.raw()), 0x7F800000);
  search(static_cast<const std::uint16_t*>(in.raw()), in.dtype() == DType::bf16 ? 0x7F80 : 0x7C00);
}

void count_zeros(Stream& stream, Tensor count, Tensor in) {
  std::atomic<std::int64_t> zeros{0};  // integer sums do not depend on the order
  over_blocks(stream, in.numel(),
              [&](std::int64_t begin, std::size_t n) { zeros += MTL_DISPATCH(count_zeros_in)(in, begin, n); });
  *count.data<std::int64_t>() += zeros;
}

}  // namespace mtl::cpu
#endif
