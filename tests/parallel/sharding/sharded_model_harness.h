// A sharded toy model on the job's ranks, and the same blocks run by hand.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/block/batch.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "tests/parallel/sharding/toy_blocks.h"

namespace packtrain::test {

extern World* world;  // set by main()

DeviceBatch toy_batch(int rank, int micro_batch, int hidden);

// Loss and gradients of all ranks' micro-batches together, block by block, without sharding.
struct Reference {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

Reference run_by_hand(const ToyOptions& model, int num_ranks, int num_micro_batches);

struct Outcome {
  double loss = 0;  // of all ranks
  bool gradients_right = true;
};

class Harness {
 public:
  Harness(const ToyOptions& toy, const ShardingOptions& options, std::int64_t delay_us,
          int shard_size = world->size());

  ShardedModel& model() { return *model_; }

  // On all ranks; right where every rank's gradients are the reference's, and their squares.
  Outcome train(const Schedule& schedule, int num_micro_batches, const Reference& reference);

 private:
  ToyOptions toy_;
  double relative_;
  double absolute_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ShardedModel> model_;
};

bool is_right(const Outcome& outcome, const Reference& reference);

const std::vector<ToyOptions>& models();

// All of the gradient but the parameters' places.
at::Tensor gaps_of(ShardedModel& model);

}  // namespace packtrain::test
