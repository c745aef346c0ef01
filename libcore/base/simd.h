// Highway for one source file: the instruction sets it is compiled for, and `hn`. No other header knows its macros.
//
// A file that uses it is compiled once per instruction set, and the best one that the machine has is chosen when it
// runs. It looks like this:
//
//   #define MTL_SIMD_FILE "text/example.cpp"  // its own name, as it would be included
//   #include "base/simd.h"                    // after every other include
//
//   HWY_BEFORE_NAMESPACE();
//   namespace mtl::HWY_NAMESPACE {
//   std::size_t count(const char* text, std::size_t bytes) { ... vectors: hn::LoadU and so on ... }
//   }
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE  // once, and not for each instruction set: the choice
//   namespace mtl {
//   HWY_EXPORT(count);
//   ... HWY_DYNAMIC_DISPATCH(count)(text, bytes) ...
//   }
//   #endif
//
// Instruction sets on x86: AVX-512, AVX2, and SSE4 as what every machine has.

// No include guard: Highway reads this file again for every instruction set.
#ifndef MTL_SIMD_TARGETS
#define MTL_SIMD_TARGETS
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE MTL_SIMD_FILE
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
