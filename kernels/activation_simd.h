// Vector versions of activation.h's functions and their derivatives. Includes simd.h, so include only this header.

#include "kernels/activation.h"
#include "kernels/simd.h"

#if defined(MTL_ACTIVATION_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_ACTIVATION_SIMD_TOGGLE
#undef MTL_ACTIVATION_SIMD_TOGGLE
#else
#define MTL_ACTIVATION_SIMD_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// gelu(x) = x s with s = 1 / (1 + e), e = exp(-2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without the
/// cancellation in 1 + tanh(u). May lose a NaN in x, but callers multiply by x, which brings it back.
struct GeluParts {
  VecF32 e;
  VecF32 s;
  VecF32 x2;
};

HWY_INLINE GeluParts gelu_parts(VecF32 x) {
  const VecF32 x2 = hn::Mul(x, x);
  const VecF32 minus_2u = hn::Mul(x, hn::MulAdd(x2, set(-2 * 0.7978845608f * 0.044715f), set(-2 * 0.7978845608f)));
  const VecF32 e = exp_in_range(hn::Max(set(-87), hn::Min(minus_2u, set(69))));
  return {e, hn::Div(set(1), hn::Add(set(1), e)), x2};
}

struct GeluTanh {
  static HWY_INLINE VecF32 value(VecF32 x) { return hn::Mul(x, gelu_parts(x).s); }

  /// s + x s (1 - s) 2 u',  1 - s = e s
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const auto [e, s, x2] = gelu_parts(x);
    const VecF32 two_du = hn::MulAdd(x2, set(2 * 0.7978845608f * 3 * 0.044715f), set(2 * 0.7978845608f));
    const VecF32 slope = hn::Mul(hn::Mul(x, two_du), hn::Mul(hn::Mul(e, s), s));
    return hn::Add(s, slope);
  }
};

/// The normal distribution: e = exp(-x^2 / 2) and p = P(X < x). p's absolute error is below 2e-7; for x >= -8, its
/// relative error is below 4e-6. The tail beyond |x| is e q(t) with t = 1 / (1 + 0.3 |x|), where q is a minimax
/// polynomial of degree 8 for |x| <= 12.5 (relative error 1e-7). We avoid 1 + erf, so nothing cancels in the left tail.
/// May lose a NaN, as in gelu_parts.
struct NormalParts {
  VecF32 e;
  VecF32 p;
};

HWY_INLINE NormalParts normal_parts(VecF32 x) {
  const VecF32 a = hn::Min(hn::Abs(x), set(12.5f));
  const VecF32 e = exp_in_range(hn::Mul(hn::Mul(a, set(-0.5f)), a));
  const VecF32 t = hn::Div(set(1), hn::MulAdd(a, set(0.3f), set(1)));
  VecF32 q = hn::MulAdd(set(0.036464497447013855f), t, set(-0.1605115532875061f));
  q = hn::MulAdd(q, t, set(0.21209180355072021f));
  q = hn::MulAdd(q, t, set(-0.059007491916418076f));
  q = hn::MulAdd(q, t, set(0.13140565156936646f));
  q = hn::MulAdd(q, t, set(0.09904145449399948f));
  q = hn::MulAdd(q, t, set(0.12089568376541138f));
  q = hn::MulAdd(q, t, set(0.11961990594863892f));
  const VecF32 tail = hn::Mul(hn::Mul(q, t), e);
  return {e, hn::IfThenElse(hn::Lt(x, set(0)), tail, hn::Sub(set(1), tail))};
}

struct GeluErf {
  static HWY_INLINE VecF32 value(VecF32 x) { return hn::Mul(x, normal_parts(x).p); }

  /// P(X < x) + x times the normal density
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const auto [e, p] = normal_parts(x);
    return hn::MulAdd(hn::Mul(x, set(0.3989422804f)), e, p);
  }
};

/// NaN stays NaN, because it is not less than 0.
struct Relu {
  static HWY_INLINE VecF32 value(VecF32 x) { return hn::IfThenZeroElse(hn::Lt(x, set(0)), x); }
  static HWY_INLINE VecF32 derivative(VecF32 x) { return hn::IfThenElseZero(hn::Gt(x, set(0)), set(1)); }
};

struct SquaredRelu {
  static HWY_INLINE VecF32 value(VecF32 x) { return hn::Mul(Relu::value(x), Relu::value(x)); }
  static HWY_INLINE VecF32 derivative(VecF32 x) { return hn::Mul(set(2), Relu::value(x)); }
};

/// silu(x) = x s with s = 1 / (1 + e), e = exp(-x). May lose a NaN, as in gelu_parts.
struct SiluParts {
  VecF32 e;
  VecF32 s;
};

HWY_INLINE SiluParts silu_parts(VecF32 x) {
  const VecF32 e = exp_in_range(hn::Max(set(-87), hn::Min(hn::Neg(x), set(80))));
  return {e, hn::Div(set(1), hn::Add(set(1), e))};
}

struct Silu {
  static HWY_INLINE VecF32 value(VecF32 x) { return hn::Mul(x, silu_parts(x).s); }

  /// s + x s (1 - s),  1 - s = e s
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const auto [e, s] = silu_parts(x);
    return hn::MulAdd(x, hn::Mul(hn::Mul(e, s), s), s);
  }
};

/// Calls body() with the function object for `activation`, such as GeluTanh(). The loop in `body` is compiled for each
/// of them.
template <class Body>
HWY_INLINE void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::gelu_tanh:
      return body(GeluTanh());
    case Activation::gelu_erf:
      return body(GeluErf());
    case Activation::relu:
      return body(Relu());
    case Activation::squared_relu:
      return body(SquaredRelu());
    case Activation::silu:
      return body(Silu());
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
