// Prompts from evaluation examples, which the model continues during training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

struct Prompt {
  std::string set;    // the evaluation set's name, or ""
  std::string store;  // folder of the example's store
  std::int64_t example = 0;
  std::vector<std::int32_t> ids;          // at least one
  std::vector<std::int32_t> reference;    // the example's own continuation, at least one token
  std::vector<std::int32_t> rejected;     // of a pair: the rejected answer to the prompt
  std::unordered_set<std::int32_t> ends;  // tokens that end a continuation
  std::size_t adapter = 0;                // number of the adapter that continues it
};

// Chooses up to `num_prompts` examples of the store, evenly spaced. The prompt is the part before
// the first supervised token. The reference is the supervised tokens from there to the next
// unsupervised one. An example supervised from its second token on (plain text) has a prompt of
// `prompt_tokens`. If it is not longer than that, its first half is the prompt. Skips examples
// without a token to predict, and those longer than `max_tokens` with their continuation.
// `ends`: the model's tokens that end a text. If a prompt's own reference ends with a special token
// of the store's tokenizer, that token is added for this prompt.
std::vector<Prompt> choose_prompts(const TokenStore& store, const std::string& set,
                                   const SamplesSection& options, std::int64_t max_tokens,
                                   const std::unordered_set<std::int32_t>& ends);

// "eos_token_id" of a config.json: no, one or several tokens.
std::unordered_set<std::int32_t> end_tokens(const std::string& config_json);

}  // namespace packtrain
