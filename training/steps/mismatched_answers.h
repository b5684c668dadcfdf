// Prompts with answers to other prompts. KTO estimates the divergence of the policy from the
// reference on them (Ethayarajh et al., arXiv 2402.01306, section 4.1).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// The examples of a step of all ranks, in a random order of `seed` and the step. It does not depend
// on the number of ranks.
std::vector<std::int64_t> shuffled_examples(const StepPlan& plan, std::uint64_t seed);

// A store whose example i has the prompt of examples[i] and the answer of examples[i + 1]; the last
// one has the answer of examples[0]. The answer begins with the first learned token. It is cut so
// that an example has at most `max_length` tokens, but keeps its first token.
class MismatchedStore final : public TokenStore {
 public:
  // `store` must outlive the object. O(tokens).
  MismatchedStore(const TokenStore& store, std::span<const std::int64_t> examples,
                  std::int64_t max_length);

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return store_.folder(); }
  ExampleCounts lengths() const override { return ExampleCounts(lengths_); }
  ExampleCounts num_loss_tokens() const override { return ExampleCounts(num_loss_tokens_); }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override;
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override;
  std::int16_t source(std::int64_t /*example*/) const override { return 0; }
  std::string fingerprint() const override { return store_.fingerprint(); }

 private:
  void add(std::int64_t prompt, std::int64_t answer, std::int64_t max_length);

  const TokenStore& store_;
  StoreInfo info_;  // of plain examples
  std::vector<std::int64_t> offsets_ = {0};
  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> mask_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> num_loss_tokens_;
};

struct MismatchedOptions {
  std::int64_t max_length = 0;  // of an example
  std::int64_t max_tokens = 0;  // of a micro-batch with several
  int num_ranks = 1;
  int rank = 0;
};

// This rank's micro-batches of a MismatchedStore of `examples`. All ranks have equally many.
// `allocate`: memory of each, as for a collator.
std::vector<PackedBatch> mismatched_batches(const TokenStore& store,
                                            std::span<const std::int64_t> examples,
                                            const MismatchedOptions& options,
                                            const HostAllocator& allocate = {});

}  // namespace packtrain
