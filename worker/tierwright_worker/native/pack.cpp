// Turns weights as files store them, [outputs][inputs], into the panels that the products read; see models/layout.py.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"
#include "pool.h"

namespace tierwright {
namespace {

constexpr int64_t kTogether = 16;  // inputs that are turned at once: what is read and written stays in the nearest cache

struct Job {
  const void* stored;
  void* panels;
  float* scales;
  int64_t outputs, inputs;
};

template <typename Element>
void turn(const Job& job, int64_t panel) {
  const Element* from = static_cast<const Element*>(job.stored) + panel * kPanel * job.inputs;
  Element* to = static_cast<Element*>(job.panels) + panel * kPanel * job.inputs;
  const int64_t width = std::min<int64_t>(kPanel, job.outputs - panel * kPanel);
  if (width < kPanel) std::fill_n(to, kPanel * job.inputs, Element{});
  for (int64_t first = 0; first < job.inputs; first += kTogether) {
    const int64_t last = std::min(job.inputs, first + kTogether);
    for (int64_t output = 0; output < width; ++output)
      for (int64_t input = first; input < last; ++input)
        to[input * kPanel + output] = from[output * job.inputs + input];
  }
}

// Each group of inputs of one output has a scale of its own; inputs lie in pairs, as the products take them.
void turn_whole(const Job& job, int64_t panel) {
  const int64_t groups = (job.inputs + kGroup - 1) / kGroup;
  const float* from = static_cast<const float*>(job.stored) + panel * kPanel * job.inputs;
  int8_t* to = static_cast<int8_t*>(job.panels) + panel * kPanel * groups * kGroup;
  float* scales = job.scales + panel * kPanel * groups;
  std::fill_n(to, kPanel * groups * kGroup, int8_t{});
  std::fill_n(scales, kPanel * groups, 0.0f);
  const int64_t width = std::min<int64_t>(kPanel, job.outputs - panel * kPanel);
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * kGroup, last = std::min(job.inputs, first + kGroup);
    for (int64_t output = 0; output < width; ++output) {
      const float* row = from + output * job.inputs;
      float most = 0;
      for (int64_t input = first; input < last; ++input) most = std::max(most, std::fabs(row[input]));
      scales[group * kPanel + output] = most * (1.0f / 127.0f);
      const float inverse = most > 0 ? 127.0f / most : 0.0f;
      for (int64_t input = first; input < last; ++input)
        to[(input / 2 * kPanel + output) * 2 + input % 2] = static_cast<int8_t>(std::nearbyintf(row[input] * inverse));
    }
  }
}

void run(Job job, void (*piece)(void*, int64_t)) {
  Pool::instance().run((job.outputs + kPanel - 1) / kPanel, piece, &job);
}

}  // namespace
}  // namespace tierwright

extern "C" {

// `size`: bytes of an element, 2 or 4, whatever it means.
void tierwright_pack(const void* stored, void* panels, int64_t outputs, int64_t inputs, int64_t size) {
  using namespace tierwright;
  const Job job{stored, panels, nullptr, outputs, inputs};
  if (size == 2)
    run(job, [](void* job, int64_t panel) { turn<uint16_t>(*static_cast<const Job*>(job), panel); });
  else
    run(job, [](void* job, int64_t panel) { turn<uint32_t>(*static_cast<const Job*>(job), panel); });
}

void tierwright_pack_whole(const float* stored, int8_t* panels, float* scales, int64_t outputs, int64_t inputs) {
  using namespace tierwright;
  run({stored, panels, scales, outputs, inputs},
      [](void* job, int64_t panel) { turn_whole(*static_cast<const Job*>(job), panel); });
}
}
