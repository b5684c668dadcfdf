// Places in shared memory, and what the warp groups of the Hopper kernel share.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "models/ops/attention/short/launch.h"
#include "models/ops/attention/short/unit_rows.cuh"
#include "models/ops/cuda/hopper/barrier.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/hopper/wgmma.cuh"

namespace packtrain::device {

constexpr int kGroupThreads = 128;
constexpr int kConsumerGroups = 2;
constexpr int kShortThreads = (1 + kConsumerGroups) * kGroupThreads;
constexpr int kGroupKeys = kUnitKeys / kConsumerGroups;
constexpr int kStages = 2;  // tiles of queries in shared memory

// Rows of D bfloat16 as wgmma and TMA read them: panels of 64 columns, rows of 128 bytes, swizzled.
template <int D, int kRows>
struct Panels {
  static constexpr int kChunks = D / 8;  // of 16 bytes, of a row
  static constexpr int kPanelBytes = kRows * 128;
  static constexpr int kBytes = D / 64 * kPanelBytes;

  __device__ static std::uint32_t place(int row, int chunk) {
    return chunk / 8 * kPanelBytes + swizzled_offset(row, chunk % 8);
  }
  // 16 columns from 16 `step`, of rows from `row`; the sum runs over the columns.
  __device__ static std::uint64_t by_columns(std::uint32_t at, int row, int step) {
    return make_smem_descriptor_k(at + step / 4 * kPanelBytes + row * 128 + step % 4 * 32);
  }
  // 16 rows from 16 `step`, of all columns from 64 `panel`; the sum runs over the rows.
  __device__ static std::uint64_t by_rows(std::uint32_t at, int step, int panel = 0) {
    return make_smem_descriptor_mn(at + panel * kPanelBytes + step * 16 * 128, kPanelBytes);
  }
};

// The producer computes these numbers for the queries of a tile.
struct QueryNumbers {
  float statistics[kUnitQueries];  // logsumexp log2(e); infinite after the last row
  float delta[kUnitQueries];       // sum(dO O)
  int first_keys[kUnitQueries];    // the first key that each query sees
};

template <int D>
struct alignas(1024) ShortShared {
  using Keys = Panels<D, kUnitKeys>;
  using Queries = Panels<D, kUnitQueries>;
  using Scores = Panels<kUnitQueries, kUnitKeys>;

  alignas(1024) unsigned char key[Keys::kBytes];
  alignas(1024) unsigned char value[Keys::kBytes];
  alignas(1024) unsigned char query[kStages][Queries::kBytes];
  alignas(1024) unsigned char grad_output[kStages][Queries::kBytes];
  alignas(1024) unsigned char output[kStages][Queries::kBytes];
  alignas(1024) unsigned char grad_scores[2][Scores::kBytes];  // dS^T, of a tile and of the next
  alignas(1024) unsigned char grad_query[Queries::kBytes];     // on their way to memory
  QueryNumbers numbers[kStages];
  UnitState state;
  // full: TMA has filled the place. ready: rows after the last are zeros, and the numbers are
  // there. empty: the consumers have read it.
  Barrier keys_full;
  Barrier keys_ready;
  Barrier keys_empty;
  Barrier full[kStages];
  Barrier ready[kStages];
  Barrier empty[kStages];

  __device__ void init_barriers() {
    keys_full.init(1);
    keys_ready.init(kGroupThreads);
    keys_empty.init(kConsumerGroups * kGroupThreads);
    for (int stage = 0; stage < kStages; ++stage) {
      full[stage].init(1);
      ready[stage].init(kGroupThreads);
      empty[stage].init(kConsumerGroups * kGroupThreads);
    }
    fence_barrier_init();
  }
};

// Matrices of all rows and heads, in boxes of 64 columns.
struct ShortMaps {
  CUtensorMap query;
  CUtensorMap key;
  CUtensorMap value;
  CUtensorMap grad_output;
  CUtensorMap output;
  CUtensorMap grad_query;
};

struct ShortKernelArguments {
  ShortAttentionArguments rows;
  ShortMaps maps;
};

// The tiles of a block of keys: all of a query head, then those of the next head.
struct TileCursor {
  QueryTiles tiles;
  int member = 0;  // of the query heads of the key head
  int tile = 0;
  int left = 0;

  __device__ TileCursor(const UnitRows& rows, int block)
      : tiles(rows.tiles_of(block)), tile(tiles.begin), left(tiles.count() * rows.group()) {}

  __device__ void advance() {
    --left;
    if (++tile < tiles.end) return;
    tile = tiles.begin;
    ++member;
  }
};

}  // namespace packtrain::device
