#include "training/steps/mismatched_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collators/flattening.h"
#include "framework/core/error.h"
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
  for (const std::int32_t length : lengths_) info_.num_tokens += length;
  for (const std::int32_t count : num_loss_tokens_) info_.num_loss_tokens += count;
}

void MismatchedStore::add(std::int64_t prompt, std::int64_t answer, std::int64_t max_length) {
  const std::int64_t num_prompt = prompt_length(store_.loss_mask(prompt));
  const auto mask = store_.loss_mask(answer);
  const std::int64_t begin = prompt_length(mask);
  // At least the first token, so that there is a label.
  const std::int64_t most = std::max<std::int64_t>(max_length - num_prompt, 1);
  const std::int64_t count = std::min(std::ssize(mask) - begin, most);
  parts_.push_back({prompt, num_prompt, answer, begin, count});
  lengths_.push_back(static_cast<std::int32_t>(num_prompt + count));
  num_loss_tokens_.push_back(static_cast<std::int32_t>(
      std::ranges::count_if(mask.subspan(begin, count), [](auto byte) { return byte != 0; })));
}

void MismatchedStore::hold(const MicroBatch& pieces) {
  for (const Piece& piece : pieces) {
    const Parts& parts = parts_.at(static_cast<std::size_t>(piece.example));
    const auto prompt = store_.input_ids(parts.prompt).first(parts.num_prompt);
    const auto answer = store_.input_ids(parts.answer).subspan(parts.begin, parts.count);
    const auto learned = store_.loss_mask(parts.answer).subspan(parts.begin, parts.count);
    Tokens tokens{{prompt.begin(), prompt.end()}, std::vector<std::uint8_t>(prompt.size(), 0)};
    tokens.ids.insert(tokens.ids.end(), answer.begin(), answer.end());
    for (const std::uint8_t byte : learned) tokens.mask.push_back(byte == 0 ? 0 : 1);
    tokens_[piece.example] = std::move(tokens);
  }
}

const MismatchedStore::Tokens& MismatchedStore::held(std::int64_t example) const {
  const auto found = tokens_.find(example);
  if (found != tokens_.end()) return found->second;
  throw Error(ErrorCategory::kInternal,
              fmt::format("mismatched example {} is read, but this rank holds {} others", example,
                          tokens_.size()));
}

std::span<const std::int32_t> MismatchedStore::input_ids(std::int64_t example) const {
  return held(example).ids;
}

std::span<const std::uint8_t> MismatchedStore::loss_mask(std::int64_t example) const {
  return held(example).mask;
}

namespace {

StepPlan plan_of(const MismatchedStore& mismatched, const MismatchedOptions& options) {
  StepPlan plan;
  if (mismatched.info().num_examples < 2) {
    plan.ranks.resize(static_cast<std::size_t>(options.num_ranks), {MicroBatch{}});
    return plan;
  }
  std::int64_t longest = options.max_tokens;
  for (const std::int32_t length : mismatched.lengths()) {
    longest = std::max<std::int64_t>(longest, length);
  }
  return plan_evaluation(mismatched.lengths(), mismatched.num_loss_tokens(), longest,
                         options.num_ranks, nullptr, options.max_tokens);
}

}  // namespace

StepPlan mismatched_plan(const TokenStore& store, std::span<const std::int64_t> examples,
                         const MismatchedOptions& options) {
  return plan_of(MismatchedStore(store, examples, options.max_length), options);
}

std::vector<PackedBatch> mismatched_batches(const TokenStore& store,
                                            std::span<const std::int64_t> examples,
                                            const MismatchedOptions& options,
                                            const HostAllocator& allocate) {
  MismatchedStore mismatched(store, examples, options.max_length);
  const StepPlan plan = plan_of(mismatched, options);
  std::vector<PackedBatch> batches;
  for (const MicroBatch& pieces : plan.ranks[static_cast<std::size_t>(options.rank)]) {
    mismatched.hold(pieces);
    batches.push_back(flatten(mismatched, pieces, LossNormalization(), {}, allocate));
  }
  return batches;
}

}  // namespace packtrain
