// Beginnings of examples, for a model that is being trained to go on with.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

struct Prompt {
  std::string set;    // the evaluation set's name, or ""
  std::string store;  // where the example is from
  std::int64_t example = 0;
  std::vector<std::int32_t> ids;          // at least one
  std::vector<std::int32_t> reference;    // what the example goes on with, at least one
  std::unordered_set<std::int32_t> ends;  // after one of these a continuation ends
};

// Up to `num_prompts` examples of the store, spread evenly over it. An example's prompt is what
// comes before its first supervised token, its reference the supervised tokens from there to the
// next that is not; an example supervised from its second token on (plain text) has a prompt of
// `prompt_tokens`, or half of it where it is not longer than that. Left out is what has nothing to
// predict, or is longer than `max_tokens` with its continuation.
// `ends`: the model's tokens that end a text; a prompt has besides the special token of the store's
// tokenizer, if it is one, that its own reference ends with.
std::vector<Prompt> choose_prompts(const TokenStore& store, const std::string& set,
                                   const SamplesSection& options, std::int64_t max_tokens,
                                   const std::unordered_set<std::int32_t>& ends);

// "eos_token_id" of a config.json: one, several or none.
std::unordered_set<std::int32_t> end_tokens(const std::string& config_json);

}  // namespace packtrain
