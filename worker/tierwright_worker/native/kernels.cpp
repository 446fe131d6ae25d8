// Products and attention whose rows are rounded alike, whatever their number: compiled once per instruction set.
//
// Every output of a product is one chain of fused multiply-adds over the inputs, in order. How many rows share a pass over
// the weights, which thread runs it, and where a row lies do not enter. Weights are read once for up to kRows rows, from
// start to end, which is what decoding costs: it is bound by memory.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simd.h"

namespace TW_ISA {

using tierwright::Attention;
using tierwright::Kind;
using tierwright::kBlock;
using tierwright::kGroup;
using tierwright::kPanel;
using tierwright::kTurned;
using tierwright::Linear;

// How far ahead the weights are fetched, in inputs, and into which cache (3 the first level, 2 the second). One or two rows
// wait for memory alone; more compute for longer than the first level can hold what is to come. Measured on one thread,
// microseconds for a panel of 576 inputs: nine rows 3.4 with the first pair, 2.9 with the second; one row 2.1 and 2.4.
constexpr int kFew = 2;
template <int Rows>
constexpr int64_t kAhead = Rows <= kFew ? 32 : 128;
template <int Rows>
constexpr int kLevel = Rows <= kFew ? 3 : 2;

// c[Rows][kColumns vectors] = (or, with `add`, +=) x[Rows][count] times w[count][kColumns vectors].
template <int Rows, typename Weight>
void product(const float* x, int64_t x_stride, const Weight* w, int64_t w_stride, int64_t count, float* c,
             int64_t c_stride, bool add) {
  Floats total[Rows][kColumns];
  for (int row = 0; row < Rows; ++row)
    for (int column = 0; column < kColumns; ++column)
      total[row][column] = add ? load(c + row * c_stride + column * kLanes) : Floats{};
  for (int64_t k = 0; k < count; ++k) {
    Floats weight[kColumns];
    for (int column = 0; column < kColumns; ++column) {
      weight[column] = load(w + column * kLanes);
      __builtin_prefetch(w + kAhead<Rows> * w_stride + column * kLanes, 0, kLevel<Rows>);
    }
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const Floats input = all(x[row * x_stride + k]);
      for (int column = 0; column < kColumns; ++column)
        total[row][column] = fma(input, weight[column], total[row][column]);
    }
    w += w_stride;
  }
  for (int row = 0; row < Rows; ++row)
    for (int column = 0; column < kColumns; ++column)
      store(c + row * c_stride + column * kLanes, total[row][column]);
}

template <typename Weight, int Rows = kRows>
void product_of(int64_t rows, const float* x, int64_t x_stride, const Weight* w, int64_t w_stride, int64_t count, float* c,
                int64_t c_stride, bool add) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      product<Rows>(x, x_stride, w, w_stride, count, c, c_stride, add);
    else
      product_of<Weight, Rows - 1>(rows, x, x_stride, w, w_stride, count, c, c_stride, add);
  }
}

// All rows and columns of a product; `columns` is a multiple of kColumns vectors.
template <typename Weight>
void products(int64_t rows, int64_t columns, const float* x, int64_t x_stride, const Weight* w, int64_t w_stride,
              int64_t count, float* c, int64_t c_stride, bool add) {
  const int64_t passes = (rows + kRows - 1) / kRows;
  for (int64_t pass = 0, row = 0; pass < passes; ++pass) {
    const int64_t height = (rows - row + passes - pass - 1) / (passes - pass);
    for (int64_t column = 0; column < columns; column += kColumns * kLanes)
      product_of<Weight>(height, x + row * x_stride, x_stride, w + column, w_stride, count, c + row * c_stride + column,
                         c_stride, add);
    row += height;
  }
}

template <typename Weight>
void linear_float(const Linear& job, int64_t panel) {
  const Weight* w = static_cast<const Weight*>(job.panels) + panel * job.inputs * kPanel;
  const int64_t first = panel * kPanel, width = std::min<int64_t>(kPanel, job.outputs - first);
  if (width == kPanel) {
    products(job.rows, kPanel, job.x, job.inputs, w, kPanel, job.inputs, job.y + first, job.outputs, false);
    return;
  }
  std::vector<float> whole(job.rows * kPanel);
  products(job.rows, kPanel, job.x, job.inputs, w, kPanel, job.inputs, whole.data(), kPanel, false);
  for (int64_t row = 0; row < job.rows; ++row)
    std::copy_n(whole.data() + row * kPanel, width, job.y + row * job.outputs + first);
}

// --- int8 weights: 16-bit activations, whole products within a group of inputs, exact in 32 bits -------------------------

constexpr int64_t kPairs = kGroup / 2;

// Whole products of one group for `Rows` rows: sums[row][kPanel].
template <int Rows>
inline void group_product(const int16_t* x, int64_t x_stride, const int8_t* w, int32_t (*sums)[kPanel]) {
#if defined(TW_AVX512)
  __m512i total[Rows][2];
  for (int row = 0; row < Rows; ++row) total[row][0] = total[row][1] = _mm512_setzero_si512();
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    __builtin_prefetch(w + (pair + 2 * kPairs) * 2 * kPanel);
    const __m512i low = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)(w + pair * 2 * kPanel)));
    const __m512i high = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)(w + pair * 2 * kPanel + kPanel)));
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      int32_t two;
      std::memcpy(&two, x + row * x_stride + 2 * pair, sizeof two);
      const __m512i both = _mm512_set1_epi32(two);
      total[row][0] = _mm512_dpwssd_epi32(total[row][0], both, low);
      total[row][1] = _mm512_dpwssd_epi32(total[row][1], both, high);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    _mm512_storeu_si512(sums[row], total[row][0]);
    _mm512_storeu_si512(sums[row] + 16, total[row][1]);
  }
#elif defined(TW_AVX2)
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m256i total[Rows];
    for (int row = 0; row < Rows; ++row) total[row] = _mm256_setzero_si256();
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const __m256i weight =
          _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(w + pair * 2 * kPanel + quarter * 16)));
      for (int row = 0; row < Rows; ++row) {
        int32_t two;
        std::memcpy(&two, x + row * x_stride + 2 * pair, sizeof two);
        total[row] = _mm256_add_epi32(total[row], _mm256_madd_epi16(_mm256_set1_epi32(two), weight));
      }
    }
    for (int row = 0; row < Rows; ++row) _mm256_storeu_si256((__m256i*)(sums[row] + quarter * 8), total[row]);
  }
#else
  for (int row = 0; row < Rows; ++row) {
    for (int column = 0; column < kPanel; ++column) sums[row][column] = 0;
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const int32_t first = x[row * x_stride + 2 * pair], second = x[row * x_stride + 2 * pair + 1];
      const int8_t* weight = w + pair * 2 * kPanel;
      for (int column = 0; column < kPanel; ++column)
        sums[row][column] += first * weight[2 * column] + second * weight[2 * column + 1];
    }
  }
#endif
}

template <int Rows>
void int8_rows(const Linear& job, int64_t panel, int64_t row) {
  const int64_t groups = (job.inputs + kGroup - 1) / kGroup;
  const int8_t* w = static_cast<const int8_t*>(job.panels) + panel * groups * kGroup * kPanel;
  const float* scales = job.scales + panel * groups * kPanel;
  const int16_t* x = job.quantised + row * groups * kGroup;
  const float* row_scales = job.row_scales + row * groups;
  float totals[Rows][kPanel] = {};
  for (int64_t group = 0; group < groups; ++group) {
    int32_t sums[Rows][kPanel];
    group_product<Rows>(x + group * kGroup, groups * kGroup, w + group * kGroup * kPanel, sums);
    for (int column = 0; column < kPanel; column += kLanes) {
      const Floats scale = load(scales + group * kPanel + column);
      for (int r = 0; r < Rows; ++r) {
        Ints whole;
        std::memcpy(&whole, sums[r] + column, sizeof whole);
        const Floats part = __builtin_convertvector(whole, Floats) * scale;
        store(totals[r] + column, fma(part, all(row_scales[r * groups + group]), load(totals[r] + column)));
      }
    }
  }
  const int64_t first = panel * kPanel, width = std::min<int64_t>(kPanel, job.outputs - first);
  for (int r = 0; r < Rows; ++r) std::copy_n(totals[r], width, job.y + (row + r) * job.outputs + first);
}

constexpr int kInt8Rows = 5;

template <int Rows = kInt8Rows>
void int8_rows_of(int64_t rows, const Linear& job, int64_t panel, int64_t row) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      int8_rows<Rows>(job, panel, row);
    else
      int8_rows_of<Rows - 1>(rows, job, panel, row);
  }
}

void linear_int8(const Linear& job, int64_t panel) {
  const int64_t passes = (job.rows + kInt8Rows - 1) / kInt8Rows;
  for (int64_t pass = 0, row = 0; pass < passes; ++pass) {
    const int64_t height = (job.rows - row + passes - pass - 1) / (passes - pass);
    int8_rows_of<>(height, job, panel, row);
    row += height;
  }
}

void linear(const Linear& job, int64_t panel) {
  if (job.kind == Kind::kFloat)
    linear_float<float>(job, panel);
  else if (job.kind == Kind::kBfloat16)
    linear_float<uint16_t>(job, panel);
  else
    linear_int8(job, panel);
}

// Each group of inputs has a scale of its own, so that one outlier does not cost the others their precision.
void quantise(const float* x, int64_t inputs, int16_t* whole, float* scales) {
  const int64_t groups = (inputs + kGroup - 1) / kGroup;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * kGroup, size = std::min<int64_t>(kGroup, inputs - first);
    float most = 0;
    for (int64_t k = 0; k < size; ++k) most = std::max(most, std::fabs(x[first + k]));
    scales[group] = most / 32767.0f;
    const float inverse = most > 0 ? 32767.0f / most : 0.0f;
    for (int64_t k = 0; k < kGroup; ++k)
      whole[first + k] = k < size ? static_cast<int16_t>(std::nearbyintf(x[first + k] * inverse)) : 0;
  }
}

// --- attention -------------------------------------------------------------------------------------------------------

constexpr int64_t kTile = 48;  // lines (rows times the heads that share a key-value head) of one item

int64_t tiles(const Attention& job) { return (job.rows * (job.heads / job.kv_heads) + kTile - 1) / kTile; }

int64_t cache_row(const Attention& job, int64_t slot, int64_t head, int64_t position) {
  return (slot * job.kv_heads + head) * job.length + position;
}

// One row of keys or values, every `stride` elements; int8 alone has a scale.
inline void put(float* to, int64_t stride, const float* from, int64_t size, float*) {
  for (int64_t at = 0; at < size; ++at) to[at * stride] = from[at];
}

// Rounds to the nearest, ties to even, as everybody does.
inline void put(uint16_t* to, int64_t stride, const float* from, int64_t size, float*) {
  for (int64_t at = 0; at < size; ++at) {
    uint32_t bits;
    std::memcpy(&bits, from + at, sizeof bits);
    to[at * stride] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

inline void put(int8_t* to, int64_t stride, const float* from, int64_t size, float* scale) {
  float most = 0;
  for (int64_t at = 0; at < size; ++at) most = std::max(most, std::fabs(from[at]));
  *scale = most / 127.0f;
  const float inverse = most > 0 ? 127.0f / most : 0.0f;
  for (int64_t at = 0; at < size; ++at) to[at * stride] = static_cast<int8_t>(std::nearbyintf(from[at] * inverse));
}

// Within kTurned positions keys lie [head_dim][kTurned], so that a product over them reads them as they are.
template <typename Stored>
void write_rows(const Attention& job, const float* rows, void* cache, float* scales, bool turned) {
  for (int64_t sequence = 0; sequence < job.sequences; ++sequence) {
    const int64_t slot = std::clamp<int64_t>(job.slots[sequence], 0, job.slot_count - 1);
    // A start beyond the end is clamped, as XLA clamps it.
    const int64_t start = std::clamp<int64_t>(job.positions[sequence], 0, job.length - job.rows);
    for (int64_t row = 0; row < job.rows; ++row)
      for (int64_t head = 0; head < job.kv_heads; ++head) {
        const int64_t at = cache_row(job, slot, head, start + row), inside = at % kTurned;
        Stored* to = static_cast<Stored*>(cache) + (turned ? (at - inside) * job.head_dim + inside : at * job.head_dim);
        put(to, turned ? kTurned : 1, rows + ((sequence * job.rows + row) * job.kv_heads + head) * job.head_dim,
            job.head_dim, scales == nullptr ? nullptr : scales + at);
      }
  }
}

template <typename Stored>
void write_both(const Attention& job) {
  write_rows<Stored>(job, job.key, job.keys, job.key_scales, true);
  write_rows<Stored>(job, job.value, job.values, job.value_scales, false);
}

void write(const Attention& job) {
  if (job.kind == Kind::kFloat)
    write_both<float>(job);
  else if (job.kind == Kind::kBfloat16)
    write_both<uint16_t>(job);
  else
    write_both<int8_t>(job);
}

// One tile of lines over all their positions, block by block: a running maximum, sum and mix per line. Blocks lie at fixed
// positions and what is not yet visible weighs exactly nothing, so a line's result depends on the line alone.
template <typename Stored>
void attend_tile(const Attention& job, int64_t item) {
  constexpr int64_t kStep = kColumns * kLanes;
  const int64_t group = job.heads / job.kv_heads, tile = item % tiles(job), rest = item / tiles(job);
  const int64_t head = rest % job.kv_heads, sequence = rest / job.kv_heads, size = job.head_dim;
  const int64_t first = tile * kTile, lines = std::min(kTile, job.rows * group - first);
  const int64_t padded = (size + kStep - 1) / kStep * kStep;
  const int64_t slot = std::clamp<int64_t>(job.slots[sequence], 0, job.slot_count - 1);
  const int64_t begin = cache_row(job, slot, head, 0);

  // Values whose rows are no whole number of vectors are copied, with room after each row.
  const bool copied = padded != size;
  thread_local std::vector<float> scratch;
  thread_local std::vector<Stored> wide;
  scratch.resize(kTile * (size + kBlock + padded + 2));
  if (copied) wide.assign(kBlock * padded, Stored{});
  float* query = scratch.data();
  float* scores = query + kTile * size;
  float* mix = scores + kTile * kBlock;
  float* most = mix + kTile * padded;
  float* total = most + kTile;
  int64_t last[kTile] = {};

  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t row = (first + line) / group, in_group = (first + line) % group;
    const float* from =
        job.query + ((sequence * job.rows + row) * job.heads + head * group + in_group) * size;
    for (int64_t at = 0; at < size; ++at) query[line * size + at] = from[at] * scale;
    last[line] = std::clamp<int64_t>(job.positions[sequence] + row, 0, job.length - 1);
    most[line] = -1e30f;
    total[line] = 0;
  }
  std::fill_n(mix, lines * padded, 0.0f);

  for (int64_t start = 0; start <= last[lines - 1]; start += kBlock) {
    const Stored* key = static_cast<const Stored*>(job.keys) + (begin + start) * size;
    const Stored* value = static_cast<const Stored*>(job.values) + (begin + start) * size;
    for (int64_t at = 0; at < kBlock; at += kTurned)
      products(lines, kTurned, query, size, key + at * size, kTurned, size, scores + at, kBlock, false);
    for (int64_t position = 0; copied && position < kBlock; ++position)
      std::copy_n(value + position * size, size, wide.data() + position * padded);
    for (int64_t line = 0; line < lines; ++line) {
      float* score = scores + line * kBlock;
      if (job.key_scales != nullptr)
        for (int64_t at = 0; at < kBlock; at += kLanes)
          store(score + at, load(score + at) * load(job.key_scales + begin + start + at));
      for (int64_t position = std::max<int64_t>(last[line] + 1 - start, 0); position < kBlock; ++position)
        score[position] = -1e30f;
      Floats peak = load(score);
      for (int64_t at = kLanes; at < kBlock; at += kLanes) peak = larger(peak, load(score + at));
      const float now = std::max(most[line], largest(peak));
      const float fade = exponential(all(most[line] - now))[0];
      most[line] = now;
      Floats sums = Floats{};
      for (int64_t at = 0; at < kBlock; at += kLanes) {
        const Floats before = load(score + at);
        const Floats weight = before > all(-1e29f) ? exponential(before - all(now)) : Floats{};
        sums = sums + weight;
        store(score + at,
              job.value_scales == nullptr ? weight : weight * load(job.value_scales + begin + start + at));
      }
      total[line] = total[line] * fade + sum(sums);
      for (int64_t at = 0; at < padded; at += kLanes)
        store(mix + line * padded + at, load(mix + line * padded + at) * all(fade));
    }
    products(lines, padded, scores, kBlock, copied ? wide.data() : value, padded, kBlock, mix, padded, true);
  }
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t row = (first + line) / group, in_group = (first + line) % group;
    float* to = job.out + ((sequence * job.rows + row) * job.heads + head * group + in_group) * size;
    for (int64_t at = 0; at < size; ++at) to[at] = mix[line * padded + at] / total[line];
  }
}

void attend(const Attention& job, int64_t item) {
  if (job.kind == Kind::kFloat)
    attend_tile<float>(job, item);
  else if (job.kind == Kind::kBfloat16)
    attend_tile<uint16_t>(job, item);
  else
    attend_tile<int8_t>(job, item);
}

}  // namespace TW_ISA

namespace tierwright {

#if defined(TW_AVX512)
const Kernels kAvx512 = {"avx512", TW_ISA::linear, TW_ISA::quantise, TW_ISA::write, TW_ISA::attend};
#elif defined(TW_AVX2)
const Kernels kAvx2 = {"avx2", TW_ISA::linear, TW_ISA::quantise, TW_ISA::write, TW_ISA::attend};
#else
const Kernels kGeneric = {"generic", TW_ISA::linear, TW_ISA::quantise, TW_ISA::write, TW_ISA::attend};

int64_t attention_items(const Attention& job) { return job.sequences * job.kv_heads * TW_ISA::tiles(job); }
#endif

}  // namespace tierwright
