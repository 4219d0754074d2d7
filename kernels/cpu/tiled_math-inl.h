// Exponentials of scores. Included once for each instruction set.

#if defined(LCAB_KERNELS_CPU_TILED_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LCAB_KERNELS_CPU_TILED_MATH_INL_H_
#undef LCAB_KERNELS_CPU_TILED_MATH_INL_H_
#else
#define LCAB_KERNELS_CPU_TILED_MATH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/tiled_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lcab::HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504088896341f;

// The larger and the smaller of x and a bound; NaN stays NaN, so that NaN in inputs shows.
HWY_INLINE Vector AtLeast(float bound, Vector x) {
  const VectorTag tag;
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, hn::Set(tag, bound)), hn::Set(tag, bound), x);
#else
  // In this order of operands: x86 returns the second where one is NaN.
  return hn::Max(hn::Set(tag, bound), x);
#endif
}
HWY_INLINE Vector AtMost(float bound, Vector x) {
  const VectorTag tag;
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, hn::Set(tag, bound)), hn::Set(tag, bound), x);
#else
  return hn::Min(hn::Set(tag, bound), x);
#endif
}

// 2^x within about one unit in the last place, for x <= 128. Exactly 0 below -126.5, so also for
// -inf: what a mask hides weighs nothing. NaN stays NaN.
HWY_INLINE Vector Exp2(Vector x) {
  const VectorTag tag;
  const hn::RebindToSigned<VectorTag> int_tag;
  x = AtLeast(-127.0f, x);
  // After adding 1.5 * 2^23 + 127 the low bits hold the nearest integer plus the exponent's bias.
  const Vector shift = hn::Set(tag, 12583039.0f);
  const Vector shifted = hn::Add(x, shift);
  const Vector fraction = hn::Sub(x, hn::Sub(shifted, shift));
  // Minimax on [-1/2, 1/2] of the relative error, 2e-9.
  Vector power = hn::Set(tag, 0x1.41fbbcp-13f);
  power = hn::MulAdd(power, fraction, hn::Set(tag, 0x1.5f3e54p-10f));
  power = hn::MulAdd(power, fraction, hn::Set(tag, 0x1.3b2d4cp-7f));
  power = hn::MulAdd(power, fraction, hn::Set(tag, 0x1.c6aee8p-5f));
  power = hn::MulAdd(power, fraction, hn::Set(tag, 0x1.ebfbdcp-3f));
  power = hn::MulAdd(power, fraction, hn::Set(tag, 0x1.62e430p-1f));
  power = hn::MulAdd(power, fraction, hn::Set(tag, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(int_tag, shifted));
  return hn::Mul(power, hn::BitCast(tag, exponent));
}

// softcap * tanh(x / softcap); `inverse` is 1 / softcap.
HWY_INLINE Vector Cap(Vector x, Vector softcap, Vector inverse) {
  const VectorTag tag;
  return hn::Mul(softcap, hn::Tanh(tag, hn::Mul(x, inverse)));
}

}  // namespace lcab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LCAB_KERNELS_CPU_TILED_MATH_INL_H_
