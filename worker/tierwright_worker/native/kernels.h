// What the kernels take, and one table of them per instruction set; see kernels.cpp.
#pragma once

#include <cstdint>

namespace tierwright {

constexpr int kPanel = 32;  // outputs that lie side by side in a packed weight
constexpr int kGroup = 32;  // inputs that share a scale in an int8 weight
constexpr int kBlock = 64;  // positions of attention that are taken at once; lengths are multiples of it
constexpr int kTurned = 32;  // positions within which keys lie turned: element by element, then position by position

enum class Kind { kFloat, kBfloat16, kInt8 };

// y[rows, outputs] = x[rows, inputs] times a packed weight.
struct Linear {
  const float* x;
  float* y;
  const void* panels;         // float or bfloat16 [panels][inputs][kPanel]; int8 [panels][padded inputs / 2][kPanel][2]
  const float* scales;        // int8: [panels][groups][kPanel]
  const int16_t* quantised;   // int8: x as whole numbers [rows][groups * kGroup]
  const float* row_scales;    // int8: [rows][groups]
  int64_t rows, inputs, outputs;
  int64_t run;  // panels that a thread takes at once
  Kind kind;
};

// Rows are written into the slots' caches at their positions, then attend to all positions up to their own.
struct Attention {
  const float *query, *key, *value;  // [sequences, rows, heads or kv_heads, head_dim]
  float* out;                        // [sequences, rows, heads, head_dim]
  void *keys, *values;               // [slots, kv_heads, length, head_dim], keys turned within kTurned positions
  float *key_scales, *value_scales;  // int8: [slots, kv_heads, length]
  const int32_t *slots, *positions;  // [sequences]
  int64_t sequences, slot_count, rows, heads, kv_heads, head_dim, length;
  Kind kind;
};

struct Kernels {
  const char* name;
  void (*linear)(const Linear&, int64_t panel);
  void (*quantise)(const float* x, int64_t inputs, int16_t* whole, float* scales);  // one row
  void (*write)(const Attention&);
  void (*attend)(const Attention&, int64_t item);
};

int64_t attention_items(const Attention&);

#if defined(__x86_64__)
extern const Kernels kAvx512, kAvx2;
#endif
extern const Kernels kGeneric;

}  // namespace tierwright
