#pragma once

// A function marked COEUS_TARGET_WIDE is compiled for CPUs with AVX2 and fma; call it only where
// has_wide_cpu() says so. Elsewhere than on x86-64 both mean the baseline.
#if defined(__x86_64__)
#define COEUS_TARGET_WIDE __attribute__((target("avx2,fma")))
#else
#define COEUS_TARGET_WIDE
#endif
#define COEUS_BODY inline __attribute__((always_inline))  // compiled into each of its two callers

namespace coeus::kernels {

inline bool has_wide_cpu() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace coeus::kernels
