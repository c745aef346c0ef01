// The masks in dropout.h for hidden states, one stretch of a row at a time. Include this header instead of simd.h,
// which it includes.

#include "kernels/dropout.h"
#include "kernels/parallel.h"
#include "kernels/row_map.h"
#include "kernels/simd.h"

#if defined(MTL_DROPOUT_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_DROPOUT_SIMD_TOGGLE
#undef MTL_DROPOUT_SIMD_TOGGLE
#else
#define MTL_DROPOUT_SIMD_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Each element's dropout factor: 0 or the scale, or 1 for all elements if dropout is off.
class HiddenMask {
 public:
  static constexpr std::size_t kStretch = 512;

  HiddenMask(const Dropout& dropout, const RowMap& rows, std::int64_t width)
      : dropout_(dropout), rows_(rows), width_(static_cast<std::uint64_t>(width)) {
    if (!dropout.active()) return;
    samples_ = rows.samples.data<std::int64_t>();
    threshold_ = static_cast<std::int32_t>(hidden_dropout_threshold(dropout.probability));
    scale_ = threshold_ >= 65536 ? 0 : 65536.0f / static_cast<float>(65536 - threshold_);
  }

  /// Calls body(i, lanes, factor) for columns [columns.begin, columns.end) in a row.
  template <class Body>
  HWY_INLINE void sweep_row(std::int64_t tensor_row, Range columns, const Body& body) const {
    if (samples_ == nullptr) {
      const std::size_t begin = columns.begin;
      sweep(columns.size(), [&](std::size_t i, auto lanes) HWY_ATTR { body(begin + i, lanes, set(1)); });
      return;
    }
    const auto sample = static_cast<std::uint64_t>(samples_[rows_.sequence(tensor_row)]);
    const std::uint64_t row = static_cast<std::uint64_t>(rows_.position(tensor_row)) * width_;
    const std::size_t end = columns.end;
    for (std::size_t at = columns.begin; at < end; at += kStretch) {
      const std::size_t n = HWY_MIN(kStretch, end - at);
      const std::uint64_t first = row + at, skipped = first % 8;
      HWY_ALIGN std::uint32_t words[(kStretch / 8 + 1) * 4];
      HWY_ALIGN std::uint16_t bits[kStretch + 64];  // room for a vector read past the end
      philox_blocks(dropout_.key, sample, first / 8, (skipped + n + 7) / 8, words);
      std::memcpy(bits, words, sizeof(words));  // a word's low half comes first: little endian
      sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { body(at + i, lanes, factor(bits + skipped + i)); });
    }
  }

 private:
  HWY_INLINE VecF32 factor(const std::uint16_t* bits) const {
    const auto drawn = hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<std::uint16_t, F32>(), bits));
    const auto kept = hn::Not(hn::Lt(drawn, hn::Set(I32(), threshold_)));
    return hn::IfThenElseZero(hn::RebindMask(F32(), kept), set(scale_));
  }

  Dropout dropout_;
  RowMap rows_;
  const std::int64_t* samples_ = nullptr;  // null without dropout
  std::uint64_t width_;
  std::int32_t threshold_ = 0;
  float scale_ = 1;
};

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
