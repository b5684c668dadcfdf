// Sums of dq over blocks of keys, in the workspace, for units of more than one block.
#pragma once

#include "models/ops/attention/short/launch.h"
#include "models/ops/attention/short/unit_rows.cuh"

namespace packtrain::device {

// The part of one thread, as vectors of four sums. `kOwners` threads have parts, which are
// interleaved. The same thread reads what it wrote, so no barrier is needed.
template <int kVectors, int kOwners>
class PartialSums {
 public:
  // Takes a tile of a query head, and the thread's number among those that have parts.
  __device__ PartialSums(const UnitRows& rows, int member, int tile, int owner) {
    constexpr std::int64_t kTile = std::int64_t{kVectors} * kOwners;
    const std::int64_t at =
        rows.query_head(member) * rows.arguments.num_tiles + rows.unit().first_tile + tile;
    place_ = reinterpret_cast<float4*>(rows.arguments.workspace) + at * kTile + owner;
  }

  // Adds a vector to four sums.
  __device__ void add_to(float* sums, int n) const {
    const float4 other = place_[n * kOwners];
    sums[0] += other.x;
    sums[1] += other.y;
    sums[2] += other.z;
    sums[3] += other.w;
  }
  __device__ void write(const float* sums, int n) const {
    place_[n * kOwners] = {sums[0], sums[1], sums[2], sums[3]};
  }

 private:
  float4* place_;
};

}  // namespace packtrain::device
