// Arguments of kernels over heads [T, heads, D].
#pragma once

#include <cstdint>

namespace packtrain {

// [T, its heads, D] with contiguous elements of a head. Strides are in elements.
struct HeadPart {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};

struct HeadParts {
  HeadPart query;
  HeadPart key;
  HeadPart value;
  int num_query_heads = 0;
  int num_key_heads = 0;
  int num_value_heads = 0;
};

struct RotaryAngles {
  const std::int32_t* position_ids = nullptr;  // [T]
  const float* frequencies = nullptr;          // [num_pairs], or one such row for each token
  std::int64_t frequency_stride = 0;           // from one token to the next: 0 or num_pairs
  int num_pairs = 0;  // pairs of a head that rotate, at most half of its elements
  bool interleaved = false;
  float scaling = 1;
  float direction = 1;  // -1: rotates back
};

// True when heads of `head_dim` elements are whole 16-byte vectors and their rotating pairs are
// whole vectors too.
inline bool can_vectorize_heads(const HeadParts& parts, const RotaryAngles& angles, int head_dim,
                                int element_bytes) {
  const int run = 16 / element_bytes;
  bool whole = head_dim % (2 * run) == 0 && angles.num_pairs % run == 0;
  for (const HeadPart* part : {&parts.query, &parts.key, &parts.value}) {
    whole = whole && part->row_stride % run == 0 && part->head_stride % run == 0 &&
            reinterpret_cast<std::uintptr_t>(part->data) % 16 == 0;
  }
  return whole;
}

}  // namespace packtrain
