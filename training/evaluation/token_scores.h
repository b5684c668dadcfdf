// Log-probabilities of the supervised tokens of a store, and of candidate tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "collators/packed_batch.h"
#include "models/block/batch.h"
#include "training/evaluation/candidate_tokens.h"

namespace packtrain {

// Of some tokens of one example, in their order.
struct ExampleScores {
  std::span<const float> log_probs;      // natural logarithms
  std::span<const std::uint8_t> greedy;  // 1: the lowest id of those with the largest logit
};

// The examples that one rank computed.
class TokenScores {
 public:
  // `candidates`: none if null. It must outlive the object.
  explicit TokenScores(const CandidateTokens* candidates = nullptr) : candidates_(candidates) {}

  void clear();
  // Makes the head write what add() takes. `batch`: `packed` on the device, of whole examples.
  void request(const PackedBatch& packed, DeviceBatch& batch) const;
  // After the forward of these micro-batches. Waits for the device once.
  void add(std::span<const PackedBatch> packed, std::span<const DeviceBatch> batches);

  // Empty for an example that was not added. Valid until the next call of add().
  ExampleScores of_labels(std::int64_t example) const;
  ExampleScores of_candidates(std::int64_t example) const;
  const CandidateTokens* candidates() const { return candidates_; }

 private:
  void place(const PackedBatch& packed, std::size_t begin);

  struct Place {
    std::size_t labels = 0;  // index of the first
    std::size_t num_labels = 0;
    std::size_t candidates = 0;
    std::size_t num_candidates = 0;
  };
  ExampleScores values(std::size_t begin, std::size_t count) const;

  const CandidateTokens* candidates_;
  std::map<std::int64_t, Place> places_;  // by example
  std::vector<float> log_probs_;
  std::vector<std::uint8_t> greedy_;
};

}  // namespace packtrain
