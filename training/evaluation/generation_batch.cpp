#include "training/evaluation/generation_batch.h"

#include <algorithm>
#include <iterator>

namespace packtrain {

GenerationBatch::GenerationBatch(const std::vector<Prompt>& prompts, std::int64_t max_new_tokens,
                                 std::int64_t vocab_size)
    : max_new_tokens_(max_new_tokens), ones_(prompts.size(), 1) {
  for (const Prompt& prompt : prompts) {
    Text text{prompt.ids, {}, std::ssize(prompt.ids)};
    text.ids.resize(prompt.ids.size() + static_cast<std::size_t>(max_new_tokens));
    text.mask.resize(text.ids.size());
    text.mask.at(text.next) = 1;
    lengths_.push_back(static_cast<std::int32_t>(text.ids.size()));
    texts_.push_back(std::move(text));
  }
  info_.vocab_size = vocab_size;
  info_.num_examples = std::ssize(prompts);
}

void GenerationBatch::append(std::int64_t text, std::int32_t id) {
  Text& grown = texts_.at(text);
  grown.ids.at(grown.next) = id;
  if (++grown.next == std::ssize(grown.ids)) return;  // full: the last row stays supervised
  grown.mask[grown.next - 1] = 0;
  grown.mask[grown.next] = 1;
}

std::int64_t GenerationBatch::num_added(std::int64_t text) const {
  const Text& grown = texts_.at(text);
  return max_new_tokens_ - (std::ssize(grown.ids) - grown.next);
}

}  // namespace packtrain
