// A small model's shards with a known value in every element, cut for any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/sharding/shard_view.h"
#include "training/checkpoint/checkpoint.h"

namespace packtrain::test {

// Trainable "embed" [7, 4] and "layers.0.mlp.down" [5, 3], frozen bfloat16 "norm" [6]. The 49
// elements are cut into equal ranges, so that parameters straddle ranks. A rank lists only the
// parameters it owns a part of. Without `values` the shards hold NaN, and a test loads into them.
std::vector<ShardView> sample_shards(int rank, int num_ranks, bool values);

// Number of elements in which weight or moments differ from what sample_shards() put there.
int num_wrong_elements(const std::vector<ShardView>& shards, bool with_moments = true);

TrainingState sample_state(std::int64_t step);

// Saves the sample model at `step`, written by `num_ranks` threads. Returns the folder.
std::string save_sample(const std::string& root, std::int64_t step, int num_ranks = 1,
                        int keep = 100);

}  // namespace packtrain::test
