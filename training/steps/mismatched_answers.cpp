#include "training/steps/mismatched_answers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collators/flattening.h"
#include "framework/core/random.h"
#include "samplers/evaluation_plan.h"

namespace packtrain {
namespace {

// Index of the first learned token; the length when there is none. The first token never counts.
std::int64_t prompt_length(std::span<const std::uint8_t> mask) {
  if (mask.empty()) return 0;
  const auto first =
      std::find_if(mask.begin() + 1, mask.end(), [](auto byte) { return byte != 0; });
  return first - mask.begin();
}

}  // namespace

std::vector<std::int64_t> shuffled_examples(const StepPlan& plan, std::uint64_t seed) {
  std::vector<std::int64_t> examples;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      for (const Piece& piece : pieces) {
        if (!piece.is_prefix) examples.push_back(piece.example);
      }
    }
  }
  const CounterRandom random(seed, "objective.mismatched", static_cast<std::uint64_t>(plan.step));
  const auto place = [&](std::int64_t example) {
    return std::pair(random.bits(static_cast<std::uint64_t>(example)), example);
  };
  std::ranges::sort(examples, {}, place);
  return examples;
}

MismatchedStore::MismatchedStore(const TokenStore& store, std::span<const std::int64_t> examples,
                                 std::int64_t max_length)
    : store_(store) {
  info_.vocab_size = store.info().vocab_size;
  info_.sources = {store.folder()};
  for (std::size_t i = 0; i < examples.size(); ++i) {
    add(examples[i], examples[(i + 1) % examples.size()], max_length);
  }
  info_.num_examples = std::ssize(lengths_);
  info_.num_tokens = offsets_.back();
  for (const std::int32_t count : num_loss_tokens_) info_.num_loss_tokens += count;
}

void MismatchedStore::add(std::int64_t prompt, std::int64_t answer, std::int64_t max_length) {
  const auto ids = store_.input_ids(prompt);
  const std::int64_t num_prompt = prompt_length(store_.loss_mask(prompt));
  const auto answer_mask = store_.loss_mask(answer);
  const std::int64_t begin = prompt_length(answer_mask);
  // At least the first token, so that there is a label.
  const std::int64_t most = std::max<std::int64_t>(max_length - num_prompt, 1);
  const std::int64_t count = std::min(std::ssize(answer_mask) - begin, most);
  const auto answer_ids = store_.input_ids(answer).subspan(begin, count);
  ids_.insert(ids_.end(), ids.begin(), ids.begin() + num_prompt);
  ids_.insert(ids_.end(), answer_ids.begin(), answer_ids.end());
  mask_.insert(mask_.end(), num_prompt, 0);
  for (const std::uint8_t byte : answer_mask.subspan(begin, count)) {
    mask_.push_back(byte == 0 ? 0 : 1);
  }
  offsets_.push_back(std::ssize(ids_));
  lengths_.push_back(static_cast<std::int32_t>(num_prompt + count));
  num_loss_tokens_.push_back(
      static_cast<std::int32_t>(std::count(mask_.end() - count, mask_.end(), 1)));
}

std::span<const std::int32_t> MismatchedStore::input_ids(std::int64_t example) const {
  const auto e = static_cast<std::size_t>(example);
  return std::span(ids_).subspan(offsets_[e], offsets_[e + 1] - offsets_[e]);
}

std::span<const std::uint8_t> MismatchedStore::loss_mask(std::int64_t example) const {
  const auto e = static_cast<std::size_t>(example);
  return std::span(mask_).subspan(offsets_[e], offsets_[e + 1] - offsets_[e]);
}

std::vector<PackedBatch> mismatched_batches(const TokenStore& store,
                                            std::span<const std::int64_t> examples,
                                            const MismatchedOptions& options,
                                            const HostAllocator& allocate) {
  const MismatchedStore mismatched(store, examples, options.max_length);
  // One example has no other answer. An empty micro-batch adds 0 to the divergence.
  if (examples.size() < 2) {
    std::vector<PackedBatch> none;
    none.push_back(flatten(mismatched, {}, LossNormalization(), {}, allocate));
    return none;
  }
  std::int64_t longest = options.max_tokens;
  for (const std::int32_t length : mismatched.lengths()) {
    longest = std::max<std::int64_t>(longest, length);
  }
  const StepPlan plan = plan_evaluation(mismatched.lengths(), mismatched.num_loss_tokens(), longest,
                                        options.num_ranks, nullptr, options.max_tokens);
  std::vector<PackedBatch> batches;
  for (const MicroBatch& pieces : plan.ranks[static_cast<std::size_t>(options.rank)]) {
    batches.push_back(flatten(mismatched, pieces, LossNormalization(), {}, allocate));
  }
  return batches;
}

}  // namespace packtrain
