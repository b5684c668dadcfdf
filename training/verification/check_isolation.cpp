#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/layers/expert_layers.h"
#include "training/verification/checks.h"
#include "training/verification/perturbed_store.h"

namespace packtrain {
namespace {

// Zero without experts and 8-bit products. An expert multiplies rows of all examples together, and
// their number decides how products are rounded. The scale of 8-bit floats is of all rows.
double allowed_move(const VerifiedModel& subject) {
  const bool has_experts = num_expert_layers(subject.decoder, subject.decoder.num_layers) > 0;
  const bool has_scales = subject.config.precision.linear != LinearProducts::kBFloat16;
  return has_experts || has_scales ? tolerances_of(subject.config.precision).token_loss : 0;
}

// A micro-batch whose examples are changed one after another.
class Isolation {
 public:
  Isolation(const VerifiedModel& subject, const VerifiedStep& step, std::size_t micro_batch,
            ShardedModel& single_rank, const Device& device)
      : subject_(subject),
        step_(step),
        micro_batch_(micro_batch),
        pieces_(step.plan.ranks[static_cast<std::size_t>(subject.rank)][micro_batch]),
        planned_(planned_rows(pieces_, subject.config.batch)),
        single_rank_(single_rank),
        device_(device),
        allowed_(allowed_move(subject)) {
    before_ = rows_of(subject.store);
  }

  // Changes each example once, even if it has several pieces, and shared tokens apart from those
  // of the first example after them.
  void change_each(CheckResult& result) const {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (pieces_[p].is_prefix) {
        change_shared(p, result);
        continue;
      }
      const std::int64_t example = pieces_[p].example;
      const auto same = [&](const Piece& piece) {
        return piece.example == example && !piece.is_prefix;
      };
      const bool is_first = std::none_of(pieces_.begin(), pieces_.begin() + p, same);
      if (is_first && !std::ranges::all_of(pieces_, same)) change(pieces_[p], result);
    }
  }

 private:
  SupervisedRows rows_of(const TokenStore& store) const {
    const PackedBatch batch = subject_.collated(store, pieces_, step_.normalization);
    const std::vector<float> losses = measure_rows(single_rank_, device_, batch);
    return supervised_rows(batch, pieces_, planned_, losses);
  }

  double move_of(std::size_t p, const SupervisedRows& after) const {
    return largest_move(before_.of_piece[p], after.of_piece[p]);
  }

  // The first piece after the group of the shared prefix `p`.
  std::size_t end_of_group(std::size_t p) const {
    std::size_t end = p + 1;
    while (end < pieces_.size() && pieces_[end].with_previous) ++end;
    return end;
  }

  // Without the tokens that a group shares.
  void change(const Piece& changed, CheckResult& result) const {
    const std::int64_t example = changed.example;
    const std::int64_t begin = changed.after_prefix ? changed.begin : 0;
    const std::int64_t end = std::ssize(subject_.store.input_ids(example));
    const PerturbedStore store(subject_.store, example, begin, end, subject_.decoder.vocab_size);
    const SupervisedRows after = rows_of(store);
    ++result.num_cases;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (pieces_[p].example == example && !pieces_[p].is_prefix) continue;
      expect_unmoved(p, after, fmt::format("example {}", example), result);
    }
  }

  void change_shared(std::size_t prefix, CheckResult& result) const {
    const Piece& shared = pieces_[prefix];
    const PerturbedStore store(subject_.store, shared.example, shared.begin,
                               shared.begin + shared.length, subject_.decoder.vocab_size);
    const SupervisedRows after = rows_of(store);
    const std::string what =
        fmt::format("the first {} tokens of example {}", shared.length, shared.example);
    ++result.num_cases;
    const std::size_t end = end_of_group(prefix);
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const bool sees = p > prefix && p < end && pieces_[p].after_prefix;
      if (!sees) {
        expect_unmoved(p, after, what, result);
      } else if (move_of(p, after) == 0) {
        result.fail(fmt::format("changing {} did not move the loss of {}, which shares them, in {}",
                                what, describe(pieces_[p], subject_.store), place()));
      }
    }
  }

  std::string place() const {
    return fmt::format("micro-batch {} of rank {}", micro_batch_, subject_.rank);
  }

  void expect_unmoved(std::size_t p, const SupervisedRows& after, const std::string& changed,
                      CheckResult& result) const {
    const double moved = move_of(p, after);
    const std::string other = describe(pieces_[p], subject_.store);
    result.note_error("moved", moved, other);
    if (moved <= allowed_) return;
    result.fail(fmt::format("changing {} moved the loss of {} by {:.2g} in {}", changed, other,
                            moved, place()));
  }

  // In nats. 0 when all losses are bit-equal, infinite when the number of supervised rows changed.
  static double largest_move(const std::vector<SupervisedRow>& before,
                             const std::vector<SupervisedRow>& after) {
    if (before.size() != after.size()) return HUGE_VAL;
    double largest = 0;
    for (std::size_t n = 0; n < before.size(); ++n) {
      const double moved = std::abs(before[n].loss - after[n].loss);
      if (!(moved <= largest)) largest = moved;
    }
    return largest;
  }

  const VerifiedModel& subject_;
  const VerifiedStep& step_;
  std::size_t micro_batch_;
  const MicroBatch& pieces_;
  PlannedRows planned_;
  ShardedModel& single_rank_;
  const Device& device_;
  double allowed_;
  SupervisedRows before_;
};

}  // namespace

CheckResult check_isolation(const VerifiedModel& subject, const VerifiedStep& step,
                            ShardedModel& single_rank, const Device& device) {
  CheckResult result{.name = "isolation",
                     .claim = "changing one example moves no other",
                     .case_name = "examples changed",
                     .errors = {{"moved"}}};
  const auto& micro_batches = step.plan.ranks[static_cast<std::size_t>(subject.rank)];
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    if (micro_batches[m].size() < 2) continue;  // no other example
    Isolation(subject, step, m, single_rank, device).change_each(result);
  }
  return result;
}

}  // namespace packtrain
