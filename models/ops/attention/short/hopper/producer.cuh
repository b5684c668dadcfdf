// The warp group that loads tiles and prepares their numbers.
#pragma once

#include "models/ops/attention/short/hopper/layout.cuh"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/cuda/power_of_2.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain::device {

template <int D>
class ShortProducer {
 public:
  __device__ ShortProducer(const ShortKernelArguments& arguments, ShortShared<D>& shared)
      : a_(arguments.rows),
        maps_(arguments.maps),
        shared_(shared),
        rows_{arguments.rows, shared.state} {}

  // A tile is loaded while the consumers have the one before it.
  __device__ void run() {
    for (int block = 0; block < rows_.num_key_blocks(); ++block) {
      TileCursor next(rows_, block);
      if (block > 0) shared_.keys_empty.wait((block - 1) % 2);
      load_keys(block);
      load_next(next);
      prepare_keys(block);
      for (TileCursor at(rows_, block); at.left > 0; at.advance()) {
        prepare_tile(at);
        load_next(next);
      }
    }
  }

 private:
  using Shared = ShortShared<D>;
  using Keys = typename Shared::Keys;
  using Queries = typename Shared::Queries;

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  template <typename Tile>
  __device__ static void load(const CUtensorMap& map, int row, int head, unsigned char* to,
                              const Barrier& arrived) {
#pragma unroll
    for (int panel = 0; panel < D / 64; ++panel) {
      tma_load_2d(map, head * D + 64 * panel, row, to + panel * Tile::kPanelBytes, arrived);
    }
  }
  __device__ void load_keys(int block) {
    if (thread() != 0) return;
    shared_.keys_full.arrive_and_expect_tx(2 * Keys::kBytes);
    const int row = rows_.unit().first_key + block * kUnitKeys;
    load<Keys>(maps_.key, row, rows_.kv_head(), shared_.key, shared_.keys_full);
    load<Keys>(maps_.value, row, rows_.kv_head(), shared_.value, shared_.keys_full);
  }
  // Begins to load the tile of the cursor, if there is one. Boxes have rows after the last too.
  __device__ void load_next(TileCursor& next) {
    if (next.left <= 0) return;
    const int stage = num_loaded_ % kStages;
    if (num_loaded_ >= kStages) shared_.empty[stage].wait((num_loaded_ / kStages - 1) % 2);
    ++num_loaded_;
    if (thread() == 0) {
      const Barrier& arrived = shared_.full[stage];
      shared_.full[stage].arrive_and_expect_tx(3 * Queries::kBytes);
      const int row = rows_.unit().first_query + next.tile * kUnitQueries;
      const int head = rows_.query_head(next.member);
      load<Queries>(maps_.query, row, head, shared_.query[stage], arrived);
      load<Queries>(maps_.grad_output, row, head, shared_.grad_output[stage], arrived);
      load<Queries>(maps_.output, row, head, shared_.output[stage], arrived);
    }
    next.advance();
  }

  // Rows after the last are those of other sequences: zero times infinity would be NaN.
  template <typename Tile, int kRows>
  __device__ static void clear_after(int present, unsigned char* place) {
    for (int at = thread(); at < (kRows - present) * Tile::kChunks; at += kGroupThreads) {
      const int row = present + at / Tile::kChunks;
      *reinterpret_cast<uint4*>(place + Tile::place(row, at % Tile::kChunks)) = {};
    }
  }
  __device__ void prepare_keys(int block) {
    shared_.keys_full.wait(block % 2);
    const int present = rows_.unit().num_keys - block * kUnitKeys;
    if (present < kUnitKeys) {
      clear_after<Keys, kUnitKeys>(present, shared_.key);
      clear_after<Keys, kUnitKeys>(present, shared_.value);
      fence_proxy_async();
    }
    shared_.keys_ready.arrive();
  }
  __device__ void prepare_tile(const TileCursor& at) {
    const int stage = num_prepared_ % kStages;
    const int parity = num_prepared_ / kStages % 2;
    ++num_prepared_;
    const float statistic = load_statistic(at);
    shared_.full[stage].wait(parity);
    const int present = rows_.unit().num_queries - at.tile * kUnitQueries;
    if (present < kUnitQueries) {
      clear_after<Queries, kUnitQueries>(present, shared_.query[stage]);
      clear_after<Queries, kUnitQueries>(present, shared_.grad_output[stage]);
      fence_proxy_async();
    }
    write_numbers(at, stage, statistic, present);
    shared_.ready[stage].arrive();
  }

  // Two threads a row.
  __device__ static int query_row() { return thread() / 2; }
  // A row after the last has no probability.
  __device__ float load_statistic(const TileCursor& at) const {
    const int query = at.tile * kUnitQueries + query_row();
    if (query >= rows_.unit().num_queries) return INFINITY;
    return kLog2E * a_.logsumexp[(rows_.unit().first_query + query) * std::int64_t{a_.num_heads} +
                                 rows_.query_head(at.member)];
  }
  __device__ void write_numbers(const TileCursor& at, int stage, float statistic, int present) {
    const int row = query_row();
    float sum = 0;
#pragma unroll 2
    for (int chunk = thread() % 2; chunk < Queries::kChunks; chunk += 2) {
      const std::uint32_t place = Queries::place(row, chunk);
      float y[8];
      float g[8];
      device::load(reinterpret_cast<const __nv_bfloat16*>(shared_.output[stage] + place), y);
      device::load(reinterpret_cast<const __nv_bfloat16*>(shared_.grad_output[stage] + place), g);
#pragma unroll
      for (int c = 0; c < 8; ++c) sum += y[c] * g[c];
    }
    sum += __shfl_xor_sync(~0U, sum, 1);
    if (thread() % 2 == 1) return;
    QueryNumbers& numbers = shared_.numbers[stage];
    numbers.statistics[row] = statistic;
    numbers.delta[row] = row < present ? sum : 0;
    const int query = at.tile * kUnitQueries + row;
    numbers.first_keys[row] = rows_.has_first_keys() ? rows_.first_key(query) : 0;
  }

  const ShortAttentionArguments& a_;
  const ShortMaps& maps_;
  Shared& shared_;
  UnitRows rows_;
  int num_loaded_ = 0;    // tiles
  int num_prepared_ = 0;  // tiles
};

}  // namespace packtrain::device
