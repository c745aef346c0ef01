// Sets up Highway for the source file that includes it, and selects the instruction sets to compile that file for.
//
// Such a source file is compiled once per instruction set, and the best one the machine supports is chosen at run time.
// It looks like this:
//
//   #define MTL_SIMD_FILE "text/example.cpp"  // the path of this source file, as in an #include
//   #include "base/simd.h"                    // after all other includes
//
//   HWY_BEFORE_NAMESPACE();
//   namespace mtl::HWY_NAMESPACE {
//   std::size_t count(const char* text, std::size_t bytes) { ... vectors: hn::LoadU and so on ... }
//   }
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE  // compiled only once: chooses the instruction set
//   namespace mtl {
//   ... MTL_DISPATCH(count)(text, bytes) ...
//   }
//   #endif
//
// Highway's own HWY_DYNAMIC_DISPATCH requires its library, which measures the clock for 3 to 8 ms when a process
// starts.
//
// Instruction sets on x86: AVX-512, AVX2, and SSE4 as the baseline.

// No include guard: Highway includes this file again for every instruction set.
#ifndef MTL_SIMD_TARGETS
#define MTL_SIMD_TARGETS
#include <type_traits>

#include "base/instruction_set.h"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)

namespace mtl {

/// Returns a function's variant for instruction_set(). `avx512` or `avx2` is null if the function was not compiled for
/// it.
template <class Function>
Function* chosen_function(std::type_identity_t<Function*> avx512, std::type_identity_t<Function*> avx2,
                          Function* baseline) {
  const InstructionSet set = instruction_set();
  if (avx512 != nullptr && set == InstructionSet::avx512) return avx512;
  return avx2 != nullptr && set != InstructionSet::baseline ? avx2 : baseline;
}

}  // namespace mtl

#define MTL_DISPATCH(function) \
  ::mtl::chosen_function(HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), &HWY_STATIC_DISPATCH(function))
#else
#define MTL_DISPATCH(function) (&HWY_STATIC_DISPATCH(function))
#endif
#endif

#undef HWY_TARGET_INCLUDE
#ifdef MTL_INCLUDED_TOGETHER  // the path of a file that includes several (cmake/fast_build.cmake)
#define HWY_TARGET_INCLUDE MTL_INCLUDED_TOGETHER
#undef MTL_SIMD_FILE
#else
#define HWY_TARGET_INCLUDE MTL_SIMD_FILE
#endif
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
