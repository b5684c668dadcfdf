// A rehearsal runs some of the plan's micro-batches before the first step and discards the
// gradients. At the first batch of a size, cuBLASLt times algorithms and cuDNN compiles plans, and
// the GPU waits meanwhile. The rehearsal does this for the sizes of the plan. Rarer sizes are left
// to their first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "samplers/planner.h"

namespace packtrain {

// A size that libraries choose algorithms by.
struct SizeKey {
  enum class What { kRows, kSupervisedRows, kHeadChunk, kLastHeadChunk, kSequences, kLongest };
  What what = What::kRows;
  std::int64_t size = 0;
  bool has_prefixes = false;  // attention has other plans for them
  // The products add weight gradients in float32, which needs other algorithms.
  bool accumulated = false;

  friend auto operator<=>(const SizeKey&, const SizeKey&) = default;
};

struct SizeOptions {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 2;  // of activations and weights
  bool narrow_gradients = false;   // ranks reduce them in less than float32
  // Gradients in place or local sums (SlotTable): products accumulate from the second micro-batch
  // on.
  bool sums_micro_batches = false;
};

// Sizes of a collated micro-batch, its dummy sequence included.
struct BatchSizes {
  std::int64_t num_rows = 0;
  std::int64_t num_supervised_rows = 0;
  std::int64_t num_sequences = 0;
  std::int64_t longest_sequence = 0;
  // Keys of attention where segments have prefixes, copies of prefixes included; 0: none has.
  std::int64_t num_keys = 0;

  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

BatchSizes sizes_of(const PackedBatch& batch);
// The same before collation, from lengths and label counts. Reads no tokens. Reads loss masks only
// for parts of examples.
BatchSizes sizes_of(const MicroBatch& pieces, Strategy strategy, const TokenStore& store);

// The keys of a micro-batch on a GPU. Batches with equal keys need the same algorithms and plans.
std::set<SizeKey> size_keys(const BatchSizes& batch, bool accumulated, const SizeOptions& options);

struct Rehearsal {
  MicroBatch pieces;
  BatchSizes sizes;
  bool accumulated = false;  // run it twice in one step, so that gradients accumulate
};

struct RehearsalPlan {
  std::vector<Rehearsal> rehearsals;
  std::int64_t largest_num_rows = 0;  // of a micro-batch of any rank, over the steps examined
  std::int64_t largest_num_keys = 0;  // BatchSizes::num_keys
};

// Examines the steps of one epoch from `first_step` on. Takes the first micro-batch of any rank
// that has a new key, in order. Examines 64 ranks of a step, other ones in the next step, and about
// four million tokens in total. The same on every rank.
RehearsalPlan plan_rehearsals(const Planner& planner, const TokenStore& store,
                              std::int64_t first_step, std::int64_t total_steps,
                              const SizeOptions& options);

// Runs them on all ranks one after another, until 64 have run or 15 seconds have passed. Weights,
// optimizer state and random streams do not change. After this call, timing of products takes at
// most a hundredth of the time. Returns how many it ran. Collective. Logs one line.
std::size_t rehearse(const RehearsalPlan& plan, Strategy strategy, const TokenStore& store,
                     ShardedModel& model, const Device& device, World& world);

}  // namespace packtrain
