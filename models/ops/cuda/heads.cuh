// Shared by kernels over heads [T, heads, D]: addresses of heads, tables of cosines and sines, and
// the rotation. A slot is the 2 N elements of a head that one thread has: N pairs to rotate, or
// elements that are not rotated.
#pragma once

#include "models/ops/cuda/heads_launch.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain::device {

// Cosines and sines of one token's pairs in shared memory. The table interleaves the slots in
// groups of four values, so that neighbouring threads read neighbouring banks.
template <int N>
struct Angles {
  const float* cos;
  const float* sin;
  int num_slots;  // slots that rotate

  __device__ static int place(int pair, int num_slots) {
    constexpr int kFour = N < 4 ? N : 4;
    const int slot = pair / N;
    const int within = pair - slot * N;
    return (within / kFour * num_slots + slot) * kFour + within % kFour;
  }
  __device__ void read(const float* table, int slot, float (&to)[N]) const {
    constexpr int kFour = N < 4 ? N : 4;
#pragma unroll
    for (int four = 0; four < N / kFour; ++four) {
      float values[kFour];
      load(table + (four * num_slots + slot) * kFour, values);
#pragma unroll
      for (int i = 0; i < kFour; ++i) to[four * kFour + i] = values[i];
    }
  }
};

// Fills the tables of `num_rows` tokens: cos [num_rows, num_pairs], then sin. All threads of the
// block call it, and a barrier must follow.
template <int N>
__device__ void write_angles(const RotaryAngles& a, std::int64_t first_row, int num_rows,
                             int thread, int num_threads, float* table) {
  const int count = num_rows * a.num_pairs;
  for (int i = thread; i < count; i += num_threads) {
    const int row = i / a.num_pairs;
    const int pair = i - row * a.num_pairs;
    float sin;
    float cos;
    const float frequency = a.frequencies[(first_row + row) * a.frequency_stride + pair];
    sincosf(static_cast<float>(a.position_ids[first_row + row]) * frequency, &sin, &cos);
    const int place = row * a.num_pairs + Angles<N>::place(pair, a.num_pairs / N);
    table[place] = cos * a.scaling;
    table[count + place] = sin * a.scaling * a.direction;
  }
}

// The tables of token `row` of `num_rows` tokens.
template <int N>
__device__ Angles<N> angles_of(const RotaryAngles& a, const float* table, int row, int num_rows) {
  return {table + row * a.num_pairs, table + (num_rows + row) * a.num_pairs, a.num_pairs / N};
}

// Offsets in the head of the two vectors of a slot.
template <int N>
__device__ int first_run(const RotaryAngles& a, int slot) {
  const bool split = !a.interleaved && slot * N < a.num_pairs;
  return split ? slot * N : 2 * slot * N;
}
template <int N>
__device__ int second_run(const RotaryAngles& a, int slot) {
  const bool split = !a.interleaved && slot * N < a.num_pairs;
  return split ? a.num_pairs + slot * N : (2 * slot + 1) * N;
}

__device__ inline void rotate_pair(float cos, float sin, float& first, float& second) {
  const float x = first;
  first = x * cos - second * sin;
  second = second * cos + x * sin;
}

// Rotates a slot. Slots beyond num_slots are not rotated.
template <int N>
__device__ void rotate(const RotaryAngles& a, const Angles<N>& angles, int slot, float (&first)[N],
                       float (&second)[N]) {
  if (slot >= angles.num_slots) return;
  float cos[N];
  float sin[N];
  angles.read(angles.cos, slot, cos);
  angles.read(angles.sin, slot, sin);
  if (N == 1 || !a.interleaved) {
#pragma unroll
    for (int i = 0; i < N; ++i) rotate_pair(cos[i], sin[i], first[i], second[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      rotate_pair(cos[i], sin[i], first[2 * i], first[2 * i + 1]);
      rotate_pair(cos[N / 2 + i], sin[N / 2 + i], second[2 * i], second[2 * i + 1]);
    }
  }
}

// Address of a token's head. Queries, keys and values may be separate tensors.
template <typename T>
__device__ const T* head_of(const HeadParts& parts, std::int64_t row, int head) {
  const HeadPart* part = &parts.query;
  if (head >= parts.num_query_heads) {
    head -= parts.num_query_heads;
    part = &parts.key;
    if (head >= parts.num_key_heads) {
      head -= parts.num_key_heads;
      part = &parts.value;
    }
  }
  return static_cast<const T*>(part->data) + row * part->row_stride + head * part->head_stride;
}

}  // namespace packtrain::device
