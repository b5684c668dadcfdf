#include "training/evaluation/prompts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "framework/core/json.h"
#include "framework/data/special_tokens.h"
#include "models/families/text_part.h"

namespace packtrain {
namespace {

struct Cut {
  std::int64_t prompt = 0;  // tokens
  std::int64_t end = 0;     // of the reference
};

std::optional<Cut> cut_example(std::span<const std::uint8_t> mask, std::int64_t prompt_tokens) {
  const auto length = std::ssize(mask);
  std::int64_t first = 1;
  while (first < length && mask[first] == 0) ++first;
  if (first >= length) return std::nullopt;
  std::int64_t end = first;
  while (end < length && mask[end] != 0) ++end;
  if (first > 1) return Cut{first, end};
  const std::int64_t wanted = prompt_tokens < end ? prompt_tokens : end / 2;
  return Cut{std::max<std::int64_t>(wanted, 1), end};
}

// The rejected answer of the pair whose chosen example this is; empty for other examples.
std::vector<std::int32_t> rejected_answer(const TokenStore& store, std::int64_t example) {
  const ExampleGroups* groups = store.groups();
  if (groups == nullptr || groups->role(example) != GroupRole::kChosen) return {};
  const std::span<const std::int32_t> ids = store.input_ids(example + 1);
  const std::optional<Cut> cut = cut_example(store.loss_mask(example + 1), 1);
  if (!cut) return {};
  return {ids.begin() + cut->prompt, ids.begin() + cut->end};
}

std::optional<Prompt> prompt_of(const TokenStore& store, std::int64_t example,
                                const SamplesSection& options, std::int64_t max_tokens) {
  const ExampleGroups* groups = store.groups();
  if (groups != nullptr && !is_learned(groups->role(example))) return std::nullopt;
  const std::span<const std::int32_t> ids = store.input_ids(example);
  const std::optional<Cut> cut = cut_example(store.loss_mask(example), options.prompt_tokens);
  if (!cut || cut->prompt + options.max_new_tokens > max_tokens) return std::nullopt;
  Prompt prompt;
  const ExampleOrigin origin = store.origin(example);
  prompt.store = origin.store;
  prompt.example = origin.example;
  prompt.ids.assign(ids.begin(), ids.begin() + cut->prompt);
  prompt.reference.assign(ids.begin() + cut->prompt, ids.begin() + cut->end);
  prompt.rejected = rejected_answer(store, example);
  return prompt;
}

}  // namespace

std::vector<Prompt> choose_prompts(const TokenStore& store, const std::string& set,
                                   const SamplesSection& options, std::int64_t max_tokens,
                                   const std::unordered_set<std::int32_t>& ends) {
  std::map<std::string, std::unordered_set<std::int32_t>> special;  // by store
  const auto num_examples = std::ssize(store.lengths());
  const std::int64_t wanted = std::min(options.num_prompts, num_examples);
  std::vector<Prompt> prompts;
  for (std::int64_t k = 0; k < wanted; ++k) {
    // The first usable example in the k-th part of the store.
    const std::int64_t last = num_examples * (k + 1) / wanted;
    std::optional<Prompt> prompt;
    for (std::int64_t e = num_examples * k / wanted; e < last && !prompt; ++e) {
      prompt = prompt_of(store, e, options, max_tokens);
    }
    if (!prompt) continue;
    prompt->set = set;
    prompt->ends = ends;
    const auto [of_store, is_new] = special.try_emplace(prompt->store);
    if (is_new) of_store->second = special_tokens(prompt->store);
    const std::int32_t last_id = prompt->reference.back();
    if (of_store->second.contains(last_id)) prompt->ends.insert(last_id);
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

std::unordered_set<std::int32_t> end_tokens(const std::string& config_json) {
  const nlohmann::json config = text_part(parse_hf_json(config_json));
  std::unordered_set<std::int32_t> ids;
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return ids;
  const nlohmann::json several = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const nlohmann::json& id : several) {
    if (id.is_number_integer()) ids.insert(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace packtrain
