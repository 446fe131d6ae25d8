// The kernels as XLA sees them: one handler each for products and for attention, and how many threads they use.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels.h"
#include "pool.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Matrix = ffi::Buffer<ffi::F32, 2>;
using Heads = ffi::Buffer<ffi::F32, 4>;
using Indices = ffi::Buffer<ffi::S32, 1>;
using Scales = ffi::Buffer<ffi::F32>;
using Index = ffi::BufferR0<ffi::S32>;

namespace tierwright {
namespace {

const Kernels& choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
    return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kGeneric;
}

const Kernels* g_kernels = &choose();

ffi::Error bad(const char* what) { return ffi::Error(ffi::ErrorCode::kInvalidArgument, what); }

bool kind_of(ffi::DataType type, Kind* kind) {
  if (type == ffi::F32) return *kind = Kind::kFloat, true;
  if (type == ffi::BF16) return *kind = Kind::kBfloat16, true;
  if (type == ffi::S8) return *kind = Kind::kInt8, true;
  return false;
}

// x [rows, inputs], which layer; all layers' panels and, for int8, scales, else empty -> y [rows, outputs].
ffi::Error linear(Matrix x, Index layer, ffi::AnyBuffer panels, Scales scales, ffi::Result<Matrix> y, int64_t layers) {
  Linear job{};
  if (!kind_of(panels.element_type(), &job.kind)) return bad("linear: weights must be f32, bf16 or s8");
  job.x = x.typed_data();
  job.y = y->typed_data();
  job.rows = x.dimensions()[0];
  job.inputs = x.dimensions()[1];
  job.outputs = y->dimensions()[1];
  const int64_t count = (job.outputs + kPanel - 1) / kPanel, groups = (job.inputs + kGroup - 1) / kGroup;
  const bool whole = job.kind == Kind::kInt8;
  const int64_t own = count * kPanel * (whole ? groups * kGroup : job.inputs), own_scales = count * groups * kPanel;
  if (y->dimensions()[0] != job.rows) return bad("linear: x and y have different rows");
  if (layers < 1 || static_cast<int64_t>(panels.element_count()) != layers * own)
    return bad("linear: the panels do not fit the layers, inputs and outputs");
  // A number out of range is clamped, as XLA clamps it.
  const int64_t at = std::clamp<int64_t>(*layer.typed_data(), 0, layers - 1);
  job.panels = static_cast<const char*>(panels.untyped_data()) + panels.size_bytes() / layers * at;
  std::vector<int16_t> quantised;
  std::vector<float> row_scales;
  if (whole) {
    if (static_cast<int64_t>(scales.element_count()) != layers * own_scales)
      return bad("linear: the scales do not fit the panels");
    job.scales = scales.typed_data() + at * own_scales;
    quantised.resize(job.rows * groups * kGroup);
    row_scales.resize(job.rows * groups);
    for (int64_t row = 0; row < job.rows; ++row)
      g_kernels->quantise(job.x + row * job.inputs, job.inputs, quantised.data() + row * groups * kGroup,
                          row_scales.data() + row * groups);
    job.quantised = quantised.data();
    job.row_scales = row_scales.data();
  }
  // A thread takes panels that lie one behind the other, for memory is read fastest from start to end; but only so many that
  // threads end together.
  job.run = std::clamp<int64_t>(count / (8 * Pool::instance().threads()), 1, 16);
  Pool::instance().run(
      (count + job.run - 1) / job.run,
      [](void* data, int64_t piece) {
        const Linear& job = *static_cast<const Linear*>(data);
        const int64_t all = (job.outputs + kPanel - 1) / kPanel, first = piece * job.run;
        for (int64_t panel = first; panel < std::min(all, first + job.run); ++panel) g_kernels->linear(job, panel);
      },
      &job);
  return ffi::Error::Success();
}

// Caches hold all layers, [layers][slots][kv_heads][length]..., of which one is used. They are results as well as arguments,
// in the same memory.
ffi::Error attend(Heads query, Heads key, Heads value, Indices slots, Indices positions, Index layer,
                  ffi::AnyBuffer keys, ffi::AnyBuffer values, float* key_scales, float* value_scales, int64_t scale_count,
                  ffi::Result<Heads> out, ffi::Result<ffi::AnyBuffer> new_keys, ffi::Result<ffi::AnyBuffer> new_values) {
  Attention job{};
  if (!kind_of(keys.element_type(), &job.kind)) return bad("attention: keys must be f32, bf16 or s8");
  if (keys.untyped_data() != new_keys->untyped_data() || values.untyped_data() != new_values->untyped_data())
    return bad("attention: the caches are not updated in place");
  const auto from = query.dimensions(), cache = keys.dimensions();
  if (cache.size() != 5 || cache[0] < 1 || values.element_count() != keys.element_count() || values.element_type() != keys.element_type())
    return bad("attention: keys and values differ");
  job.query = query.typed_data();
  job.key = key.typed_data();
  job.value = value.typed_data();
  job.out = out->typed_data();
  // A number out of range is clamped, as XLA clamps it.
  const int64_t at = std::clamp<int64_t>(*layer.typed_data(), 0, cache[0] - 1);
  job.keys = static_cast<char*>(keys.untyped_data()) + keys.size_bytes() / cache[0] * at;
  job.values = static_cast<char*>(values.untyped_data()) + values.size_bytes() / cache[0] * at;
  job.slots = slots.typed_data();
  job.positions = positions.typed_data();
  job.sequences = from[0];
  job.rows = from[1];
  job.heads = from[2];
  job.head_dim = from[3];
  job.slot_count = cache[1];
  job.kv_heads = cache[2];
  job.length = cache[3];
  if (cache[4] != job.head_dim || job.kv_heads == 0 || job.heads % job.kv_heads != 0 || job.rows > job.length ||
      job.length % kBlock != 0)
    return bad("attention: query and caches do not fit each other");
  const int64_t rows = job.sequences * job.rows * job.kv_heads * job.head_dim;
  if (static_cast<int64_t>(key.element_count()) != rows || static_cast<int64_t>(value.element_count()) != rows)
    return bad("attention: keys or values of the rows do not fit");
  if (job.kind == Kind::kInt8 && scale_count != cache[0] * job.slot_count * job.kv_heads * job.length)
    return bad("attention: the scales do not fit the caches");
  if (job.kind == Kind::kInt8) {
    job.key_scales = key_scales + scale_count / cache[0] * at;
    job.value_scales = value_scales + scale_count / cache[0] * at;
  }
  g_kernels->write(job);
  Pool::instance().run(
      attention_items(job),
      [](void* job, int64_t item) { g_kernels->attend(*static_cast<const Attention*>(job), item); }, &job);
  return ffi::Error::Success();
}

ffi::Error attention(Heads query, Heads key, Heads value, Indices slots, Indices positions, Index layer,
                     ffi::AnyBuffer keys, ffi::AnyBuffer values, ffi::Result<Heads> out, ffi::Result<ffi::AnyBuffer> new_keys,
                     ffi::Result<ffi::AnyBuffer> new_values) {
  if (keys.element_type() == ffi::S8) return bad("attention: int8 keys need scales");
  return attend(query, key, value, slots, positions, layer, keys, values, nullptr, nullptr, 0, out, new_keys, new_values);
}

ffi::Error attention_int8(Heads query, Heads key, Heads value, Indices slots, Indices positions, Index layer,
                          ffi::AnyBuffer keys, ffi::AnyBuffer values, Scales key_scales, Scales value_scales, ffi::Result<Heads> out,
                          ffi::Result<ffi::AnyBuffer> new_keys, ffi::Result<ffi::AnyBuffer> new_values,
                          ffi::Result<Scales> new_key_scales, ffi::Result<Scales> new_value_scales) {
  if (keys.element_type() != ffi::S8) return bad("attention: only int8 keys have scales");
  if (key_scales.typed_data() != new_key_scales->typed_data() ||
      value_scales.typed_data() != new_value_scales->typed_data() ||
      key_scales.element_count() != value_scales.element_count())
    return bad("attention: the scales are not updated in place");
  return attend(query, key, value, slots, positions, layer, keys, values, key_scales.typed_data(), value_scales.typed_data(),
                static_cast<int64_t>(key_scales.element_count()), out, new_keys, new_values);
}

}  // namespace
}  // namespace tierwright

XLA_FFI_DEFINE_HANDLER_SYMBOL(tierwright_linear, tierwright::linear,
                              ffi::Ffi::Bind()
                                  .Arg<Matrix>()
                                  .Arg<Index>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<Scales>()
                                  .Ret<Matrix>()
                                  .Attr<int64_t>("layers"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(tierwright_attention, tierwright::attention,
                              ffi::Ffi::Bind()
                                  .Arg<Heads>()
                                  .Arg<Heads>()
                                  .Arg<Heads>()
                                  .Arg<Indices>()
                                  .Arg<Indices>()
                                  .Arg<Index>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<Heads>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(tierwright_attention_int8, tierwright::attention_int8,
                              ffi::Ffi::Bind()
                                  .Arg<Heads>()
                                  .Arg<Heads>()
                                  .Arg<Heads>()
                                  .Arg<Indices>()
                                  .Arg<Indices>()
                                  .Arg<Index>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<Scales>()
                                  .Arg<Scales>()
                                  .Ret<Heads>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<Scales>()
                                  .Ret<Scales>());

extern "C" {

void tierwright_threads(int threads) { tierwright::Pool::instance().resize(threads); }

// Chooses another instruction set, for tests; false where this machine has not got it.
int tierwright_use(const char* name);
const char* tierwright_source() { return TW_SOURCE; }
const char* tierwright_instructions() { return tierwright::g_kernels->name; }
}

int tierwright_use(const char* name) {
  using namespace tierwright;
  const std::string wanted = name;
  const Kernels& best = choose();
  const Kernels* all[] = {
#if defined(__x86_64__)
      &kAvx512, &kAvx2,
#endif
      &kGeneric};
  bool reached = false;  // each is a subset of those before it
  for (const Kernels* kernels : all) {
    reached = reached || kernels == &best;
    if (reached && wanted == kernels->name) {
      g_kernels = kernels;
      return 1;
    }
  }
  return 0;
}
