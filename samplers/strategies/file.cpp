#include "samplers/strategies/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "samplers/group_units.h"
#include "samplers/plan_file/plan_file.h"
#include "samplers/strategies/balanced.h"

namespace packtrain {
namespace {

constexpr const char* kOtherData =
    "The plan was made for other data. Make it again from the lengths of data.train.";

void check_header(const PlanFile& file, const Selection& selection, const PlanOptions& options) {
  const PlanFileHeader& header = file.header();
  const ExampleCounts lengths = selection.stored_lengths();
  if (header.num_examples != std::ssize(lengths)) {
    file.fail(1,
              fmt::format("the plan is for {} examples, but data.train has {}", header.num_examples,
                          lengths.size()),
              kOtherData);
  }
  if (!header.lengths.empty() && header.lengths != lengths_digest(lengths)) {
    file.fail(1, "the lengths that the plan was made for are not those of data.train", kOtherData);
  }
  const int num_ranks = header.num_ranks.value_or(options.num_ranks);
  if (num_ranks == options.num_ranks) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("{}: the plan is for {} rank{}, but this run has {}", file.path(),
                          num_ranks, num_ranks == 1 ? "" : "s", options.num_ranks),
              "Start that many ranks (`plan --ranks`), or make the plan for this number. Steps "
              "without ranks ({\"examples\": [...]}) serve any number.");
}

// Checks the epochs of a plan file, one after another.
class FileCheck {
 public:
  FileCheck(const Selection& selection, const PlanOptions& options)
      : selection_(selection),
        file_(*options.plan_file),
        max_tokens_(options.max_tokens_per_micro_batch),
        is_selected_(selection.flags()) {}

  void check_epoch(std::int64_t epoch) {
    is_seen_.assign(static_cast<std::size_t>(file_.header().num_examples), false);
    for (std::int64_t s = 0; s < file_.num_steps(epoch); ++s) check_step(epoch, s);
    if (!file_.header().leaves_examples_out) check_complete(epoch);
  }

 private:
  bool is_selected(std::int64_t example) const {
    return is_selected_.empty() || is_selected_[static_cast<std::size_t>(example)];
  }

  void check_step(std::int64_t epoch, std::int64_t s) {
    const PlanFileStep step = file_.step(epoch, s);
    bool is_trained = false;
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      for (std::size_t m = 0; m < step.ranks[rank].size(); ++m) {
        std::int64_t num_tokens = 0;
        std::vector<std::int64_t> groups;
        const auto where = [&] {
          return file_.has_ranks() ? fmt::format("step {}, rank {}, micro-batch {}", s, rank, m)
                                   : fmt::format("step {}", s);
        };
        for (const std::int64_t unit : units_of(step.ranks[rank][m], where, step.line, groups)) {
          take(unit, epoch, s, step.line);
          if (!is_selected(unit)) continue;
          is_trained = true;
          if (!file_.has_ranks()) continue;
          num_tokens += selection_.length(static_cast<ExampleIndex>(unit));
        }
        if (num_tokens <= max_tokens_) continue;
        file_.fail(step.line,
                   fmt::format("{}: got {} tokens, wanted at most "
                               "batch.max_tokens_per_micro_batch = {}",
                               where(), num_tokens, max_tokens_),
                   "Raise batch.max_tokens_per_micro_batch, or make the plan with this budget.");
      }
    }
    if (!is_trained) {
      file_.fail(step.line,
                 fmt::format("step {}: data.too_long and masks leave none of its examples", s),
                 "Leave the step out.");
    }
  }

  // The examples of a micro-batch. Of a store with groups: its groups, in `numbers`. Their examples
  // must follow one another.
  template <class Where>
  std::span<const std::int64_t> units_of(std::span<const std::int64_t> examples, const Where& where,
                                         std::int64_t line,
                                         std::vector<std::int64_t>& numbers) const {
    const GroupUnits* units = selection_.units();
    if (units == nullptr) return examples;
    for (std::size_t i = 0; i < examples.size();) {
      numbers.push_back(units->store().groups()->group_of(examples[i]));
      const ExampleGroup group = units->group(numbers.back());
      for (std::int64_t k = 0; k < group.num_examples; ++k, ++i) {
        const std::int64_t wanted = group.first_example + k;
        if (i < examples.size() && examples[i] == wanted) continue;
        file_.fail(line,
                   fmt::format("{}: {} is not whole: got {}, wanted example {}", where(),
                               units->describe(numbers.back()),
                               i < examples.size() ? fmt::format("example {}", examples[i])
                                                   : std::string("the end"),
                               wanted),
                   "Name all examples of a group one after another in one micro-batch.");
      }
    }
    return numbers;
  }

  void take(std::int64_t example, std::int64_t epoch, std::int64_t s, std::int64_t line) {
    const auto e = static_cast<std::size_t>(example);
    if (!is_seen_[e]) {
      is_seen_[e] = true;
      return;
    }
    file_.fail(line,
               fmt::format("step {}: {} is in epoch {} a second time, first in line {}", s,
                           selection_.describe(static_cast<ExampleIndex>(example)), epoch,
                           first_line_of(example, epoch)),
               "An epoch has each example once. Give repeats to data.train, or add an epoch.");
  }

  std::int64_t first_line_of(std::int64_t unit, std::int64_t epoch) const {
    const GroupUnits* units = selection_.units();
    const std::int64_t example = units == nullptr ? unit : units->group(unit).first_example;
    for (std::int64_t s = 0;; ++s) {
      const PlanFileStep step = file_.step(epoch, s);
      for (const auto& micro_batches : step.ranks) {
        for (const auto& examples : micro_batches) {
          if (std::ranges::find(examples, example) != examples.end()) return step.line;
        }
      }
    }
  }

  void check_complete(std::int64_t epoch) const {
    std::int64_t num_missing = 0;
    std::int64_t first = 0;
    selection_.examples().for_each([&](ExampleIndex example) {
      if (!is_seen_[example] && num_missing++ == 0) first = static_cast<std::int64_t>(example);
    });
    if (num_missing == 0) return;
    throw Error(ErrorCategory::kData,
                fmt::format("{}: epoch {} lacks {} of {} {}s, the first is {}", file_.path(), epoch,
                            num_missing, selection_.examples().size(),
                            selection_.units() == nullptr ? "example" : "group",
                            selection_.describe(static_cast<ExampleIndex>(first))),
                "Add them to a step, or write \"leaves_examples_out\": true into the header.");
  }

  const Selection& selection_;
  const PlanFile& file_;
  std::int64_t max_tokens_;
  std::vector<bool> is_selected_;
  std::vector<bool> is_seen_;  // in this epoch
};

// Divides a micro-batch into consecutive parts of at most `max_tokens`, or of one example or group.
std::vector<MicroBatch> parts_of(std::span<const Piece> pieces, std::int64_t max_tokens) {
  std::vector<MicroBatch> parts;
  std::int64_t num_tokens = 0;
  for_each_unit(pieces, [&](std::span<const Piece> unit) {
    std::int64_t length = 0;
    for (const Piece& piece : unit) length += piece.length;
    if (parts.empty() || num_tokens + length > max_tokens) {
      parts.emplace_back();
      num_tokens = 0;
    }
    parts.back().insert(parts.back().end(), unit.begin(), unit.end());
    num_tokens += length;
  });
  return parts;
}

}  // namespace

void check_file(const Selection& selection, const PlanOptions& options) {
  check_header(*options.plan_file, selection, options);
  // The budget of each micro-batch is compared with rows of groups.
  if (selection.units() != nullptr && options.plan_file->has_ranks()) {
    selection.units()->find_prefixes();
  }
  FileCheck check(selection, options);
  for (std::int64_t epoch = 0; epoch < options.plan_file->num_epochs(); ++epoch) {
    check.check_epoch(epoch);
  }
}

Assignment assign_file(const StepPieces& step, const PlanOptions& options) {
  if (!options.plan_file->has_ranks()) return assign_balanced(step, options);
  const auto num_ranks = static_cast<std::size_t>(options.num_ranks);
  const std::size_t num_micro_batches = step.num_packs() / num_ranks;
  Assignment ranks(num_ranks);
  for (std::size_t m = 0; m < num_micro_batches; ++m) {
    std::vector<std::vector<MicroBatch>> parts;  // of each rank
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      const auto pieces = step.pack(rank * num_micro_batches + m);
      parts.push_back(parts_of(pieces, options.max_tokens_per_micro_batch));
      count = std::max(count, parts.back().size());
    }
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      parts[rank].resize(count);
      std::ranges::move(parts[rank], std::back_inserter(ranks[rank]));
    }
  }
  return ranks;
}

}  // namespace packtrain
