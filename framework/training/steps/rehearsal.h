// Libraries choose and build by size: cuBLASLt's algorithms are timed, cuDNN's plans compiled, at
// the first batch of a size, and the GPU waits meanwhile. A rehearsal meets the sizes that the plan
// will ask for before the first step: it runs some of the plan's own micro-batches and throws the
// gradients away. What is rarer stays for its first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"
#include "samplers/planner.h"

namespace packtrain {

// What a library chooses by, and which size.
struct SizeKey {
  enum class What { kRows, kSupervisedRows, kHeadChunk, kLastHeadChunk, kSequences, kLongest };
  What what = What::kRows;
  std::int64_t size = 0;
  // Weight gradients are added up in float32 by the products themselves: other products.
  bool accumulated = false;

  friend auto operator<=>(const SizeKey&, const SizeKey&) = default;
};

struct SizeOptions {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 2;  // of activations and weights
  bool narrow_gradients = false;   // ranks add them up in less than float32
  // Groups of one rank (SlotTable): products add to it from the second micro-batch on.
  bool grads_in_place = false;
};

// What sizes follow from: of a collated micro-batch, its dummy sequence included.
struct BatchSizes {
  std::int64_t num_rows = 0;
  std::int64_t num_supervised_rows = 0;
  std::int64_t num_sequences = 0;
  std::int64_t longest_sequence = 0;

  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

BatchSizes sizes_of(const PackedBatch& batch);
// The same before it is collated, from lengths and label counts. Reads no token, and masks of parts
// of examples alone.
BatchSizes sizes_of(const MicroBatch& pieces, Strategy strategy, const TokenStore& store);

// The keys of a micro-batch on a GPU. Batches of equal keys ask libraries for the same things.
std::set<SizeKey> size_keys(const BatchSizes& batch, bool accumulated, const SizeOptions& options);

struct Rehearsal {
  MicroBatch pieces;
  BatchSizes sizes;
  bool accumulated = false;  // run it twice in one step, whose gradients add up in place
};

struct RehearsalPlan {
  std::vector<Rehearsal> rehearsals;
  std::int64_t largest_num_rows = 0;  // of a micro-batch of any rank, of the steps looked at
};

// Of the steps from `first_step` on that belong to its epoch: the first micro-batch of any rank, in
// their order, that asks for something new. Looks at 64 ranks of a step, others in the next one,
// and at about four million tokens together. The same on every rank.
RehearsalPlan plan_rehearsals(const Planner& planner, const TokenStore& store,
                              std::int64_t first_step, std::int64_t total_steps,
                              const SizeOptions& options);

// Runs them on all ranks alike, one after the other, up to 64 or 15 seconds; weights, optimizer
// state and random streams stay as they are. From then on timing products takes a hundredth of the
// time at most. Returns how many it ran. Collective; logs one line.
std::size_t rehearse(const RehearsalPlan& plan, Strategy strategy, const TokenStore& store,
                     ShardedModel& model, const Device& device, World& world);

}  // namespace packtrain
