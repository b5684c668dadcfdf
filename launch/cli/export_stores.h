// Properties of a run's training stores that an export needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/checkpoint/training_state.h"

namespace packtrain {

struct RunStores {
  std::vector<std::string> folders;      // those that still exist at their path
  std::vector<std::string> gone;         // the missing ones
  std::vector<std::int64_t> end_tokens;  // special tokens that learned passages end in, ascending
  std::vector<std::string> end_texts;    // the same as texts of the tokenizer
  std::string chat_template;             // of the first store with a template, or ""
};

// Reads the stores of data.train of the run that saved `state`. It samples up to 10,000 evenly
// spaced examples of each store. A special token counts when it ends at least one in twenty of
// their learned passages. Throws Error(kData) for a damaged store.
RunStores read_run_stores(const TrainingState& state);

// Throws Error(kData) where the tokenizer of `tokenizer_folder` differs from that of a store.
void check_exported_tokenizer(const RunStores& stores, const std::string& tokenizer_folder);

}  // namespace packtrain
