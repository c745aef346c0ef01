#include "optim/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace mtl {

namespace {

struct QuinticList {
  bool starts_over;  // otherwise the last numbers are repeated
  std::vector<QuinticStep> steps;
};

constexpr QuinticStep kSimple{3.4445f, -4.7750f, 2.0315f};

std::vector<QuinticStep> eight_and(QuinticStep first, QuinticStep last) {
  std::vector<QuinticStep> out(8, first);
  out.push_back(last);
  return out;
}

/// In the order of kQuinticNames.
const QuinticList kLists[] = {{true, {kSimple}},
                              {true,
                               {{4.0848f, -6.8946f, 2.9270f},
                                {3.9505f, -6.3029f, 2.6377f},
                                {3.7418f, -5.5913f, 2.3037f},
                                {2.8769f, -3.1427f, 1.2046f},
                                {2.8366f, -3.0525f, 1.2012f}}},
                              {false,
                               {{8.2051f, -22.9019f, 16.4607f},
                                {4.0664f, -2.8612f, 0.5184f},
                                {3.9096f, -2.8234f, 0.5250f},
                                {3.2856f, -2.4153f, 0.4853f},
                                {2.2779f, -1.6198f, 0.3985f},
                                {1.8726f, -1.2307f, 0.3585f},
                                {1.8564f, -1.2132f, 0.3568f},
                                {1.8750f, -1.2500f, 0.3750f}}},
                              {false,
                               {{8.4703f, -25.1081f, 18.6293f},
                                {4.1828f, -3.1087f, 0.5806f},
                                {3.9619f, -2.9541f, 0.5630f},
                                {3.2866f, -2.4647f, 0.5074f},
                                {2.2737f, -1.6447f, 0.4162f}}},
                              {true,
                               {{4.0098f, -7.0585f, 2.4635f},
                                {3.4585f, -5.5479f, 2.5959f},
                                {2.7573f, -3.2939f, 1.4254f},
                                {2.7215f, -3.0494f, 1.3169f}}},
                              {false, eight_and(kSimple, {2.0f, -1.5f, 0.5f})}};
static_assert(std::size(kLists) == kQuinticNames.size());

}  // namespace

std::vector<QuinticStep> quintic_steps(std::string_view name, std::int64_t steps) {
  const auto at = std::find(kQuinticNames.begin(), kQuinticNames.end(), name);
  require(at != kQuinticNames.end(), "no numbers of Newton-Schulz are named ", name);
  const auto& [starts_over, list] = kLists[at - kQuinticNames.begin()];
  std::vector<QuinticStep> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i)
    out.push_back(list[starts_over ? i % list.size() : std::min(i, list.size() - 1)]);
  return out;
}

void orthogonalize(Stream& stream, Arena& scratch, Tensor matrix, const std::vector<QuinticStep>& steps, float scale,
                   DType compute) {
  expect_tensor("orthogonalize", matrix, DType::f32, matrix.shape());
  require(!steps.empty(), "orthogonalize: needs at least one step");
  Arena::Mark mark(scratch);
  const Tensor sum = scratch.make(DType::f64, {1});
  sum_of_squares(stream, scratch, sum, {matrix});
  // Products take turns with two buffers. The last one writes `matrix`.
  Tensor x = scratch.make(compute, matrix.shape());
  Tensor next = compute == DType::f32 ? matrix : scratch.make(compute, matrix.shape());
  if (compute == DType::f32 && steps.size() % 2 == 0) std::swap(x, next);
  divide_by_norm(stream, x, matrix, sum);
  // The smaller of X X^T and X^T X. A polynomial of the second, from the right, makes the same product.
  const bool is_wide = matrix.size(0) <= matrix.size(1);
  const std::int64_t size = std::min(matrix.size(0), matrix.size(1));
  const Tensor a = scratch.make(compute, {size, size}), squared = scratch.make(compute, {size, size});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    QuinticStep step = steps[i];
    const bool is_last = i + 1 == steps.size();
    if (is_last) step = {step.a * scale, step.b * scale, step.c * scale}, next = matrix;
    is_wide ? gemm(stream, scratch, a, {x}, transposed(x)) : gemm(stream, scratch, a, transposed(x), {x});
    gemm(stream, scratch, squared, {a}, {a});
    quintic_polynomial(stream, squared, a, step);
    is_wide ? gemm(stream, scratch, next, {squared}, {x}) : gemm(stream, scratch, next, {x}, {squared});
    std::swap(x, next);
  }
}

}  // namespace mtl
