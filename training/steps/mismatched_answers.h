// Prompts with answers to other prompts. KTO estimates the divergence of the policy from the
// reference on them (Ethayarajh et al., arXiv 2402.01306, section 4.1).
#pragma once

#include <cstdint>
#include <map>
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
  // `store` must outlive the object. Reads the loss masks of all examples, and no tokens.
  MismatchedStore(const TokenStore& store, std::span<const std::int64_t> examples,
                  std::int64_t max_length);
  // Copies the tokens and masks of these examples. Others have none: reading them is an
  // Error(kInternal).
  void hold(const MicroBatch& pieces);

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return store_.folder(); }
  ExampleCounts lengths() const override { return ExampleCounts(lengths_); }
  ExampleCounts num_loss_tokens() const override { return ExampleCounts(num_loss_tokens_); }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override;
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override;
  std::int16_t source(std::int64_t /*example*/) const override { return 0; }
  std::string fingerprint() const override { return store_.fingerprint(); }

 private:
  // The tokens of an example, as places in the store.
  struct Parts {
    std::int64_t prompt = 0;  // an example of the store
    std::int64_t num_prompt = 0;
    std::int64_t answer = 0;  // another one
    std::int64_t begin = 0;   // its first learned token
    std::int64_t count = 0;   // of tokens from there on
  };
  struct Tokens {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> mask;
  };

  void add(std::int64_t prompt, std::int64_t answer, std::int64_t max_length);
  const Tokens& held(std::int64_t example) const;

  const TokenStore& store_;
  StoreInfo info_;  // of plain examples
  std::vector<Parts> parts_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> num_loss_tokens_;
  std::map<std::int64_t, Tokens> tokens_;
};

struct MismatchedOptions {
  std::int64_t max_length = 0;  // of an example
  std::int64_t max_tokens = 0;  // of a micro-batch with several
  int num_ranks = 1;
  int rank = 0;
};

// The micro-batches of all ranks of a MismatchedStore of `examples`. All ranks have equally many.
// One example has no other answer: each rank then has an empty micro-batch.
StepPlan mismatched_plan(const TokenStore& store, std::span<const std::int64_t> examples,
                         const MismatchedOptions& options);

// This rank's part of mismatched_plan(). `allocate`: memory of each, as for a collator.
std::vector<PackedBatch> mismatched_batches(const TokenStore& store,
                                            std::span<const std::int64_t> examples,
                                            const MismatchedOptions& options,
                                            const HostAllocator& allocate = {});

}  // namespace packtrain
