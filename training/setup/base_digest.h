// A digest of the weights that an adapter is trained over.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

class BaseDigest {
 public:
  void add(const ShardView& shard);  // not of an adapter
  void add(std::uint64_t sum) { sum_ += sum; }
  std::uint64_t sum() const { return sum_; }
  std::string text() const;

 private:
  std::uint64_t sum_ = 0;
};

// Collective over `control`, which has all ranks of the model. 16 hexadecimal digits of all weights
// but the adapter's, as they were loaded: the same on any number of ranks. It distinguishes models
// and is no protection against forgery.
std::string base_digest(ShardedModel& model, Communicator& control);
// The same of all weights, the adapter's included.
std::string model_digest(ShardedModel& model, Communicator& control);

}  // namespace packtrain
