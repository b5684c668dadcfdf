// A token store of prompts and their continuations, so that the evaluation's planner and collator
// can be used for generation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/token_store.h"
#include "training/evaluation/prompts.h"

namespace packtrain {

// Each text has its final length from the start, with zeros for tokens to come. Causal attention
// never reads these, and the shapes of a batch stay constant. The next token of a text is its only
// supervised one.
class GenerationBatch final : public TokenStore {
 public:
  // `max_new_tokens` > 0: tokens reserved after each prompt. `vocab_size`: of the model.
  GenerationBatch(const std::vector<Prompt>& prompts, std::int64_t max_new_tokens,
                  std::int64_t vocab_size);

  void append(std::int64_t text, std::int32_t id);
  std::int64_t num_added(std::int64_t text) const;
  bool is_full(std::int64_t text) const { return num_added(text) == max_new_tokens_; }

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return lengths_; }
  ExampleCounts num_loss_tokens() const override { return ones_; }
  std::span<const std::int32_t> input_ids(std::int64_t text) const override {
    return texts_.at(text).ids;
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t text) const override {
    return texts_.at(text).mask;
  }
  std::int16_t source(std::int64_t /*text*/) const override { return 0; }
  std::string fingerprint() const override { return {}; }

 private:
  struct Text {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> mask;
    std::int64_t next = 0;
  };

  std::int64_t max_new_tokens_;
  StoreInfo info_;
  std::string folder_ = "samples";
  std::vector<Text> texts_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> ones_;
};

}  // namespace packtrain
