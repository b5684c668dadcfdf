// The rows of a block of threads of the short attention kernels.
#pragma once

#include <cstdint>

#include "models/ops/attention/short/launch.h"

namespace packtrain::device {

// Tiles [begin, end) of kUnitQueries queries.
struct QueryTiles {
  int begin = 0;
  int end = 0;
  __device__ int count() const { return end > begin ? end - begin : 0; }
};

// What all threads of a block know. In shared memory, because they have no registers to spare.
struct UnitState {
  AttentionUnit unit;
  int kv_head;
  int group;  // query heads of a key head
  int before;
  int first_keys[kUnitKeys];  // of several sequences: the first key of each row
};

// Rows of a unit for one key head. Queries and keys count from the unit's first ones. A query sees
// keys from first_key() to its own, which is `before` keys after its number.
struct UnitRows {
  const ShortAttentionArguments& arguments;
  UnitState& state;

  // All threads call it, and it has barriers.
  __device__ void fill() const {
    if (threadIdx.x == 0) {
      state.unit = arguments.units[blockIdx.x / arguments.num_kv_heads];
      state.kv_head = static_cast<int>(blockIdx.x) % arguments.num_kv_heads;
      state.group = arguments.num_heads / arguments.num_kv_heads;
      state.before = state.unit.num_keys - state.unit.num_queries;
    }
    __syncthreads();
    find_first_keys();
    __syncthreads();
  }

  __device__ const AttentionUnit& unit() const { return state.unit; }
  __device__ int kv_head() const { return state.kv_head; }
  __device__ int group() const { return state.group; }
  __device__ int before() const { return state.before; }
  __device__ int query_head(int member) const { return kv_head() * group() + member; }
  __device__ int num_key_blocks() const { return (unit().num_keys + kUnitKeys - 1) / kUnitKeys; }
  __device__ int num_tiles() const {
    return (unit().num_queries + kUnitQueries - 1) / kUnitQueries;
  }
  __device__ bool has_first_keys() const {
    return unit().num_sequences > 1 || arguments.window > 0;
  }
  __device__ int first_key(int query) const {
    const int begin = unit().num_sequences > 1 ? state.first_keys[query] : 0;
    return arguments.window > 0 ? max(begin, query + before() - arguments.window + 1) : begin;
  }

  // Tiles with queries that see keys of a block of kUnitKeys.
  __device__ QueryTiles tiles_of(int block) const {
    QueryTiles tiles = {max(0, block * kUnitKeys - before()) / kUnitQueries, num_tiles()};
    if (arguments.window > 0) {
      const int last = block * kUnitKeys + kUnitKeys - 2 + arguments.window - before();
      tiles.end = last < 0 ? 0 : min(tiles.end, last / kUnitQueries + 1);
    }
    return tiles;
  }
  // The first and the last block of keys that queries of a tile see.
  __device__ int first_block(int tile) const {
    if (arguments.window == 0) return 0;
    return max(0, tile * kUnitQueries + before() - arguments.window + 1) / kUnitKeys;
  }
  __device__ int last_block(int tile) const {
    return min(num_key_blocks() - 1,
               (tile * kUnitQueries + kUnitQueries - 1 + before()) / kUnitKeys);
  }
  // True if one of `num_queries` queries sees one of `num_keys` keys.
  __device__ bool sees(int query, int num_queries, int key, int num_keys) const {
    return query < unit().num_queries && key < unit().num_keys &&
           query + num_queries - 1 + before() >= key &&
           (!has_first_keys() || first_key(query) <= key + num_keys - 1);
  }

 private:
  __device__ void find_first_keys() const {
    const int row = static_cast<int>(threadIdx.x);
    if (unit().num_sequences == 1 || row >= kUnitKeys) return;
    const std::int32_t* begins = arguments.cu_sequences + unit().first_sequence;
    const int at = min(row, unit().num_queries - 1) + unit().first_query;
    int low = 0;  // the last sequence that begins at or before() the row
    for (int high = unit().num_sequences; high - low > 1;) {
      const int middle = (low + high) / 2;
      (begins[middle] <= at ? low : high) = middle;
    }
    state.first_keys[row] = begins[low] - unit().first_query;
  }
};

}  // namespace packtrain::device
