// Tiles of keys and queries in shared memory, and their numbers, for the portable kernels.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "models/ops/attention/short/launch.h"
#include "models/ops/attention/short/unit_rows.cuh"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/matrix_fragments.cuh"
#include "models/ops/cuda/power_of_2.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain::device {

constexpr int kPortableWarps = 8;
constexpr int kPortableThreads = 32 * kPortableWarps;

// Places in shared memory, in bytes.
template <int D>
struct PortableShared {
  using Rows = MatrixTile<D>;
  using Scores = MatrixTile<kUnitQueries>;
  static constexpr int kKeyBytes = kUnitKeys * Rows::kRowBytes;
  static constexpr int kQueryBytes = kUnitQueries * Rows::kRowBytes;
  static constexpr int kKey = 0;
  static constexpr int kValue = kKey + kKeyBytes;
  static constexpr int kQuery = kValue + kKeyBytes;             // two
  static constexpr int kGradOutput = kQuery + 2 * kQueryBytes;  // two
  static constexpr int kOutput = kGradOutput + 2 * kQueryBytes;
  static constexpr int kScores = kOutput + kQueryBytes;
  static constexpr int kStatistics = kScores + kUnitKeys * Scores::kRowBytes;
  static constexpr int kDelta = kStatistics + kUnitQueries * 4;
  static constexpr int kState = kDelta + kUnitQueries * 4;
  static constexpr int kBytes = kState + sizeof(UnitState);
  static_assert(kBytes <= kShortAttentionSharedBytes);
};

// All threads of a block call each function.
template <int D>
class TileLoader {
 public:
  using Place = PortableShared<D>;
  using Element = __nv_bfloat16;

  __device__ TileLoader(const ShortAttentionArguments& a, unsigned char* shared)
      : rows_{a, *reinterpret_cast<UnitState*>(shared + Place::kState)}, a_(a), shared_(shared) {}

  __device__ const UnitRows& rows() const { return rows_; }
  __device__ float* statistics() const {
    return reinterpret_cast<float*>(shared_ + Place::kStatistics);
  }
  __device__ float* delta() const { return reinterpret_cast<float*>(shared_ + Place::kDelta); }

  __device__ void load_keys(int block) {
    const std::int64_t row = rows_.unit().first_key + block * kUnitKeys;
    const std::int64_t offset = row * a_.key_stride + rows_.kv_head() * D;
    const int present = rows_.unit().num_keys - block * kUnitKeys;
    load_rows<kUnitKeys>(static_cast<const Element*>(a_.key) + offset, a_.key_stride, present,
                         Place::kKey);
    load_rows<kUnitKeys>(static_cast<const Element*>(a_.value) + offset, a_.key_stride, present,
                         Place::kValue);
  }
  __device__ void load_queries(int member, int tile, int stage) {
    const std::int64_t row = rows_.unit().first_query + tile * kUnitQueries;
    const int head = rows_.query_head(member);
    const int present = rows_.unit().num_queries - tile * kUnitQueries;
    load_rows<kUnitQueries>(
        static_cast<const Element*>(a_.query) + row * a_.query_stride + head * D, a_.query_stride,
        present, Place::kQuery + stage * Place::kQueryBytes);
    load_rows<kUnitQueries>(
        static_cast<const Element*>(a_.grad_output) + row * dense_stride() + head * D,
        dense_stride(), present, Place::kGradOutput + stage * Place::kQueryBytes);
  }
  __device__ void load_output(int member, int tile) {
    const std::int64_t row = rows_.unit().first_query + tile * kUnitQueries;
    load_rows<kUnitQueries>(static_cast<const Element*>(a_.output) + row * dense_stride() +
                                rows_.query_head(member) * D,
                            dense_stride(), rows_.unit().num_queries - tile * kUnitQueries,
                            Place::kOutput);
  }
  // Returns the logsumexp of one of the first kUnitQueries rows, that of this thread. A row after
  // the last has no probability.
  __device__ float load_statistic(int member, int tile) const {
    const int row = tile * kUnitQueries + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= kUnitQueries || row >= rows_.unit().num_queries) return INFINITY;
    return kLog2E * a_.logsumexp[(rows_.unit().first_query + row) * std::int64_t{a_.num_heads} +
                                 rows_.query_head(member)];
  }

  // Writes delta of the tile, by four threads a row.
  __device__ void write_delta(int stage) {
    static_assert(kPortableThreads == 4 * kUnitQueries);
    const int row = static_cast<int>(threadIdx.x) / 4;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Rows::kChunks / 4; ++i) {
      const std::uint32_t place = Rows::place(row, static_cast<int>(threadIdx.x) % 4 + 4 * i);
      float y[8];
      float g[8];
      load(reinterpret_cast<const Element*>(shared_ + Place::kOutput + place), y);
      load(reinterpret_cast<const Element*>(shared_ + Place::kGradOutput +
                                            stage * Place::kQueryBytes + place),
           g);
#pragma unroll
      for (int c = 0; c < 8; ++c) sum += y[c] * g[c];
    }
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (threadIdx.x % 4 == 0) delta()[row] = sum;
  }

 private:
  using Rows = typename Place::Rows;

  template <int kRows>
  __device__ void load_rows(const void* from, std::int64_t stride, int present, int place) {
    const auto* rows = static_cast<const Element*>(from);
#pragma unroll
    for (int i = 0; i < kRows * Rows::kChunks / kPortableThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kPortableThreads;
      const int row = at / Rows::kChunks;
      const int chunk = at % Rows::kChunks;
      cp_async(rows + row * stride + chunk * 8, shared_ + place + Rows::place(row, chunk),
               row < present);
    }
  }

  __device__ std::int64_t dense_stride() const { return std::int64_t{a_.num_heads} * D; }

  UnitRows rows_;
  const ShortAttentionArguments& a_;
  unsigned char* shared_;
};

}  // namespace packtrain::device
