#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "training/verification/checks.h"
#include "training/verification/gradient_error.h"

namespace packtrain {
namespace {

// Both sides use one formula for weights; only rounding may differ.
constexpr double kWeightTolerance = 1e-6;

double relative_error(double got, double want) {
  return got == want ? 0 : std::abs(got - want) / std::abs(want);
}

// Relative to the token's loss, at least to 1 nat: a loss near 0 is a difference of large numbers.
double row_error(float got, float want) {
  return std::abs(got - want) / std::max(1.0, std::abs(static_cast<double>(want)));
}

class PackedComparison {
 public:
  PackedComparison(const VerifiedModel& subject, CheckResult& result)
      : subject_(subject), result_(result), tolerances_(tolerances_of(subject.config.precision)) {}

  void compare_piece(const Piece& piece, const std::vector<SupervisedRow>& packed,
                     const std::vector<SupervisedRow>& alone) {
    const std::string name = describe(piece, subject_.store);
    ++result_.num_cases;
    if (packed.size() != alone.size()) {
      result_.fail(fmt::format("{}: {} supervised tokens packed, {} alone", name, packed.size(),
                               alone.size()));
      return;
    }
    double worst = 0;
    for (std::size_t n = 0; n < packed.size(); ++n) {
      if (!same_target(name, packed[n], alone[n])) return;
      const double error = row_error(packed[n].loss, alone[n].loss);
      if (!(error <= worst)) worst = error;
    }
    result_.note_error("token loss", worst, name);
    if (worst <= tolerances_.token_loss) return;
    result_.fail(fmt::format("{}: a token's loss differs by {:.2g} (allowed {:.0e})", name, worst,
                             tolerances_.token_loss));
  }

  void compare_step(const Measured& packed, const Measured& alone) {
    const double loss = relative_error(packed.loss, alone.loss);
    result_.note_error("loss", loss, "");
    if (!(loss <= tolerances_.loss)) {
      result_.fail(
          fmt::format("the step's loss is {:.8g} packed, {:.8g} one by one (allowed {:.0e})",
                      packed.loss, alone.loss, tolerances_.loss));
    }
    const ReferenceGradients reference(alone.gradients);
    for (const OwnedGradient& gradient : packed.gradients) {
      const double error = reference.error_of(gradient);
      result_.note_error("gradient", error, gradient.parameter);
      if (error <= tolerances_.gradient) continue;
      result_.fail(fmt::format("gradient of {}: differs by {:.2g} of its norm (allowed {:.0e}){}",
                               gradient.parameter, error, tolerances_.gradient,
                               reference.most_of_it(gradient)));
    }
  }

 private:
  bool same_target(const std::string& name, const SupervisedRow& packed,
                   const SupervisedRow& alone) {
    if (packed.token != alone.token || packed.label != alone.label) {
      result_.fail(fmt::format("{}: token {} has label {} packed, token {} has label {} alone",
                               name, packed.token, packed.label, alone.token, alone.label));
      return false;
    }
    if (relative_error(packed.weight, alone.weight) <= kWeightTolerance) return true;
    result_.fail(fmt::format("{}: token {} weighs {:.8g} packed, {:.8g} alone", name, packed.token,
                             packed.weight, alone.weight));
    return false;
  }

  const VerifiedModel& subject_;
  CheckResult& result_;
  Tolerances tolerances_;
};

// Walks over the pieces of the batches of a step's examples one by one.
class SeparateRows {
 public:
  SeparateRows(const VerifiedStep& step, const Measured& measured)
      : step_(step), measured_(measured) {}

  // The supervised rows of the next piece.
  std::vector<SupervisedRow> next() {
    if (piece_ == rows_.of_piece.size()) {
      const SeparateBatch& separate = step_.one_by_one[batch_];
      rows_ = supervised_rows(separate.batch, separate.pieces, unpadded_rows(separate.pieces),
                              measured_.row_losses[batch_]);
      ++batch_;
      piece_ = 0;
    }
    return rows_.of_piece[piece_++];
  }

 private:
  const VerifiedStep& step_;
  const Measured& measured_;
  SupervisedRows rows_;
  std::size_t batch_ = 0;
  std::size_t piece_ = 0;
};

}  // namespace

CheckResult check_packed(const VerifiedModel& subject, const VerifiedStep& step,
                         const Measured& packed, const Measured& one_by_one) {
  CheckResult result{.name = "packed",
                     .claim = "packed = one by one",
                     .case_name = "pieces",
                     .same_on_every_rank = true,
                     .errors = {{"loss"}, {"token loss"}, {"gradient"}}};
  PackedComparison comparison(subject, result);
  SeparateRows separate(step, one_by_one);
  std::size_t batch = 0;
  for (std::size_t rank = 0; rank < step.plan.ranks.size(); ++rank) {
    for (std::size_t m = 0; m < step.plan.ranks[rank].size(); ++m, ++batch) {
      const MicroBatch& pieces = step.plan.ranks[rank][m];
      const SupervisedRows rows =
          supervised_rows(step.packed[rank][m], pieces, planned_rows(pieces, subject.config.batch),
                          packed.row_losses[batch]);
      for (const std::int64_t row : rows.unowned_rows) {
        result.fail(
            fmt::format("micro-batch {} of rank {}: row {} has a label but belongs to no "
                        "example",
                        m, rank, row));
      }
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        const std::vector<SupervisedRow> alone =
            pieces[p].is_prefix ? std::vector<SupervisedRow>() : separate.next();
        comparison.compare_piece(pieces[p], rows.of_piece[p], alone);
      }
    }
  }
  comparison.compare_step(packed, one_by_one);
  return result;
}

}  // namespace packtrain
