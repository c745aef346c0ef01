// Shared by the operator tests: random tensors on the device under test, error measures, tolerances, finite
// differences. An operator's naive fp64 reference is in the operator's own test.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "device/copy.h"
#include "device/memory.h"
#include "tests/device_under_test.h"
#include "tests/relative_error.h"

namespace mtl::test {

/// Upper bounds for the relative rms error when fp32 operators are compared with fp64.
struct Tolerance {
  double elementwise = 1e-6;  // each result depends on a few elements
  double reduction = 1e-5;    // results are sums over a row or a column
  double difference = 2e-3;   // for finite differences of an fp32 function
};
inline constexpr Tolerance kTolerance{};

/// Returns an upper bound for the relative rms error when a result is stored in `dtype`. The operands must be exact.
/// Adds at most half a unit in the last place for rounding to the bound for fp32.
inline double rounding_of(DType dtype, double fp32) {
  if (dtype == DType::f32) return fp32;
  return dtype == DType::bf16 ? 0x1p-8 + fp32 : 0x1p-11 + fp32;
}

/// A pair of dtypes that operators accept: for the residual stream, and for the layers' computation.
struct StreamTypes {
  DType stream, compute;
};
inline constexpr StreamTypes kStreamTypes[] = {{DType::f32, DType::f32},
                                               {DType::bf16, DType::bf16},
                                               {DType::f16, DType::f16},
                                               {DType::f32, DType::bf16},
                                               {DType::f32, DType::f16}};

/// Rows and columns for the tests of the norms: odd ones, and those around the limits of a GPU kernel's paths.
inline constexpr std::pair<std::int64_t, std::int64_t> kNormSizes[] = {
    {1, 3},    {3, 7},   {64, 768}, {5, 1031}, {1031, 33}, {2000, 128}, {3, 2056}, {2, 2501}, {9, 1024},
    {5, 1032}, {9, 264}, {6, 1600}, {7, 2048}, {4, 4096},  {4, 8192},   {4, 8200}, {1, 16392}};

/// Returns modes and dtypes for the gradients of parameters in case `number` of a test: one of fp32 and one of dtype
/// `compute`, one that overwrites and one that accumulates. Even and odd numbers together have all combinations.
inline std::array<std::pair<GradMode, DType>, 2> grad_kinds(std::size_t number, DType compute) {
  if (number % 2 == 0) return {{{GradMode::overwrite, DType::f32}, {GradMode::accumulate, compute}}};
  return {{{GradMode::overwrite, compute}, {GradMode::accumulate, DType::f32}}};
}

inline const Device kDevice = device_under_test();

/// A tensor that owns its memory on the device under test, and a copy on the host. Access synchronizes them: tensor()
/// sends what the host wrote, and host() receives what operators may have written. Call tensor() again after host().
class Owned {
 public:
  Owned(DType dtype, Shape shape)
      : buffer_(kDevice, std::max<std::size_t>(1, static_cast<std::size_t>(shape.numel())) * size_of(dtype)),
        tensor_(buffer_.tensor(dtype, shape)),
        view_(std::make_unique<HostView>(kDevice, tensor_)) {}
  explicit Owned(Shape shape) : Owned(DType::f32, shape) {}
  operator Tensor() const { return tensor(); }
  /// Returns the tensor, for use by operators.
  const Tensor& tensor() const {
    if (at_ == Newest::host) view_->send();
    at_ = Newest::device;
    return tensor_;
  }
  /// Returns the elements, for use by the host.
  template <class T>
  T* host() const {
    if (at_ == Newest::device) view_->receive();
    at_ = Newest::host;
    return view_->tensor().data<T>();
  }
  const Shape& shape() const { return tensor_.shape(); }
  float* begin() const { return host<float>(); }
  float& operator[](std::int64_t i) const { return host<float>()[i]; }
  DType dtype() const { return tensor_.dtype(); }
  std::int64_t numel() const { return tensor_.numel(); }
  /// Returns the elements as doubles. The dtype can be any floating-point type.
  std::vector<double> values() const {
    return with_float_type(dtype(), [&]<class T>(T) {
      std::vector<double> out(static_cast<std::size_t>(numel()));
      std::transform(host<T>(), host<T>() + numel(), out.begin(), [](T value) { return double{widen(value)}; });
      return out;
    });
  }

 private:
  enum class Newest { host, device };
  Buffer buffer_;
  Tensor tensor_;
  std::unique_ptr<HostView> view_;
  mutable Newest at_ = Newest::device;
};

/// Returns normally distributed numbers with standard deviation `spread`. The same seed gives the same numbers.
/// Returns numbers with mean 0 and standard deviation `spread`. Each is a sum of four uniform numbers, which is nearly
/// normal up to 3.4 deviations: logarithms and roots would take longer than the operators do. Source: SplitMix64.
inline Owned random_tensor(Shape shape, unsigned seed, double spread = 1) {
  Owned out(shape);
  const double scale = spread * std::sqrt(3.0) / 65536;  // a uniform number below 65536 has the variance 65536^2 / 12
  std::uint64_t state = std::uint64_t{seed} << 32;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    const auto sum = static_cast<double>((z & 65535) + (z >> 16 & 65535) + (z >> 32 & 65535) + (z >> 48));
    out[i] = static_cast<float>((sum - 2 * 65535) * scale);
  }
  return out;
}

/// Returns the same numbers in another dtype, rounded to nearest even.
inline Owned rounded(const Owned& from, DType dtype) {
  Owned out(dtype, from.shape());
  const std::vector<double> values = from.values();
  with_float_type(dtype, [&]<class T>(T) {
    T* to = out.host<T>();
    for (double value : values) *to++ = narrow<T>(static_cast<float>(value));
  });
  return out;
}

/// Returns a tensor with these numbers, rounded to fp32.
inline Owned rounded(const std::vector<double>& values, Shape shape) {
  Owned out(shape);
  for (std::int64_t i = 0; i < out.numel(); ++i) out[i] = static_cast<float>(values[static_cast<std::size_t>(i)]);
  return out;
}

inline Owned random_tensor(DType dtype, Shape shape, unsigned seed, double spread = 1) {
  return rounded(random_tensor(shape, seed, spread), dtype);
}

inline Owned filled(Shape shape, float value) {
  Owned out(shape);
  std::fill(out.begin(), out.begin() + out.numel(), value);
  return out;
}

inline Owned integers(Shape shape, std::initializer_list<std::int32_t> values) {
  Owned out(DType::i32, shape);
  std::copy(values.begin(), values.end(), out.host<std::int32_t>());
  return out;
}

inline Owned random_integers(Shape shape, std::int32_t low, std::int32_t high, unsigned seed) {
  Owned out(DType::i32, shape);
  std::mt19937 generator(seed);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.host<std::int32_t>()[i] = low + static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(high - low));
  }
  return out;
}

/// Returns rms(actual - expected) / rms(expected), like rms_relative().
inline double relative_rms(const Owned& actual, const std::vector<double>& expected) {
  require(actual.numel() == static_cast<std::int64_t>(expected.size()), "the reference has another size");
  const std::vector<double> values = actual.values();
  return rms_relative(values.data(), expected);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  HostView left(kDevice, a), right(kDevice, b);
  left.receive();
  right.receive();
  return std::ranges::equal(left.bytes(), right.bytes());  // memcmp would get null pointers for empty tensors
}

/// Adds `more` to `target`, element by element. This is the expected result of accumulating.
inline void add_to(std::vector<double>& target, const std::vector<double>& more) {
  for (std::size_t i = 0; i < target.size(); ++i) target[i] += more[i];
}

/// Returns the derivative of `loss()` with respect to each element of x, using central differences. `loss()` returns a
/// double computed from the current contents of x.
template <class Loss>
std::vector<double> finite_differences(const Owned& x, const Loss& loss, double step = 1e-2) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float saved = x[i];
    const auto above = static_cast<float>(static_cast<double>(saved) + step);
    const auto below = static_cast<float>(static_cast<double>(saved) - step);
    x[i] = above;
    const double high = loss();
    x[i] = below;
    const double low = loss();
    x[i] = saved;
    out.push_back((high - low) / (static_cast<double>(above) - static_cast<double>(below)));
  }
  return out;
}

/// Returns the sum over weight * value: a scalar loss with gradient `weight` with respect to `value`.
inline double weighted_sum(const Owned& weight, const Owned& value) {
  double sum = 0;
  for (std::int64_t i = 0; i < value.numel(); ++i)
    sum += static_cast<double>(weight[i]) * static_cast<double>(value[i]);
  return sum;
}

/// Returns a meta tensor, which has no memory.
inline Tensor meta(Shape shape, DType dtype = DType::f32) { return {nullptr, dtype, shape}; }

}  // namespace mtl::test
