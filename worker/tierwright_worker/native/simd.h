// One vector of floats of the instruction set that this file is compiled for: AVX-512, AVX2 or what every machine has.
//
// Compiled with -ffp-contract=off: only fma() fuses, so that every instance of a template rounds alike.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(TW_AVX512) || defined(TW_AVX2)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace TW_ISA {

#if defined(TW_AVX512)
constexpr int kLanes = 16, kRows = 14, kColumns = 2;  // rows x columns of vectors: the accumulators of one product
#elif defined(TW_AVX2)
constexpr int kLanes = 8, kRows = 6, kColumns = 2;
#else
constexpr int kLanes = 4, kRows = 4, kColumns = 2;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef float LooseFloats __attribute__((vector_size(kLanes * 4), aligned(4)));
typedef int8_t Bytes __attribute__((vector_size(kLanes)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));

inline Floats load(const float* from) { return *reinterpret_cast<const LooseFloats*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<LooseFloats*>(to) = value; }
inline Floats all(float value) { return value - Floats{}; }

// bfloat16 is the upper half of a float.
inline Floats load(const uint16_t* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  return (Floats)(__builtin_convertvector(halves, Words) << 16);
}

inline Floats load(const int8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(__builtin_convertvector(bytes, Ints), Floats);
}

inline Floats fma(Floats a, Floats b, Floats c) {
#if defined(TW_AVX512)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(TW_AVX2)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

// Halves are folded onto each other, so the order of additions is the same for every caller.
inline float sum(Floats value) {
  float lanes[kLanes];
  std::memcpy(lanes, &value, sizeof lanes);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

inline float largest(Floats value) {
  float lanes[kLanes], result;
  std::memcpy(lanes, &value, sizeof lanes);
  result = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) result = lanes[lane] > result ? lanes[lane] : result;
  return result;
}

// e^x for x <= 0, within 2 units of the last place; exactly 1 at 0. Range reduction by log 2, then a Taylor polynomial.
inline Floats exponential(Floats x) {
  const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number, in the low bits
  x = larger(x, all(-87.0f));
  const Floats shifted = fma(x, all(1.44269504088896341f), magic);
  const Floats whole = shifted - magic;
  Floats rest = fma(whole, all(-0.693359375f), x);
  rest = fma(whole, all(2.12194440e-4f), rest);
  Floats result = all(1.0f / 5040);
  result = fma(result, rest, all(1.0f / 720));
  result = fma(result, rest, all(1.0f / 120));
  result = fma(result, rest, all(1.0f / 24));
  result = fma(result, rest, all(1.0f / 6));
  result = fma(result, rest, all(0.5f));
  result = fma(result, rest, all(1.0f));
  result = fma(result, rest, all(1.0f));
  const Ints exponent = ((Ints)shifted - (Ints)magic + 127) << 23;
  return result * (Floats)exponent;
}

}  // namespace TW_ISA
