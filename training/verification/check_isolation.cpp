#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/layers/expert_layers.h"
#include "training/verification/checks.h"
#include "training/verification/perturbed_store.h"

namespace packtrain {
namespace {

// Zero without experts. An expert multiplies rows of all examples together, and their number
// decides how products are rounded.
double allowed_move(const VerifiedModel& subject) {
  const bool has_experts = num_expert_layers(subject.decoder, subject.decoder.num_layers) > 0;
  return has_experts ? tolerances_of(subject.config.precision).token_loss : 0;
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

  // Changes each example once, even if it has several pieces.
  void change_each(CheckResult& result) const {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const std::int64_t example = pieces_[p].example;
      const auto same = [&](const Piece& piece) { return piece.example == example; };
      const bool is_first = std::none_of(pieces_.begin(), pieces_.begin() + p, same);
      if (is_first && !std::ranges::all_of(pieces_, same)) change(example, result);
    }
  }

 private:
  SupervisedRows rows_of(const TokenStore& store) const {
    const PackedBatch batch = subject_.collate(store, pieces_, step_.normalization);
    const std::vector<float> losses = measure_rows(single_rank_, device_, batch);
    return supervised_rows(batch, pieces_, planned_, losses);
  }

  void change(std::int64_t example, CheckResult& result) const {
    const PerturbedStore store(subject_.store, example, subject_.decoder.vocab_size);
    const SupervisedRows after = rows_of(store);
    ++result.num_cases;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (pieces_[p].example == example) continue;
      const double moved = largest_move(before_.of_piece[p], after.of_piece[p]);
      const std::string other = describe(pieces_[p], subject_.store);
      result.note_error("moved", moved, other);
      if (moved <= allowed_) continue;
      result.fail(
          fmt::format("changing example {} moved the loss of {} by {:.2g} in micro-batch "
                      "{} of rank {}",
                      example, other, moved, micro_batch_, subject_.rank));
    }
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
