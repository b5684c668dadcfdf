#include <fmt/format.h>

#include <cmath>

#include "training/verification/checks.h"
#include "training/verification/gradient_error.h"

namespace packtrain {

CheckResult check_ranks(const VerifiedModel& subject, const Measured& mine,
                        const Measured& single_rank, int num_ranks) {
  CheckResult result{
      .name = "ranks",
      .claim = num_ranks > 1 ? fmt::format("{} ranks = 1", num_ranks) : "N ranks = 1",
      .case_name = "gradient shards",
      .errors = {{"loss"}, {"gradient"}}};
  if (num_ranks == 1) return result;
  const Tolerances tolerances = tolerances_of(subject.config.precision);
  const double loss_error = std::abs(mine.loss - single_rank.loss) / std::abs(single_rank.loss);
  result.note_error("loss", loss_error, "");
  if (!(loss_error <= tolerances.loss)) {
    result.fail(fmt::format("the step's loss is {:.8g} on {} ranks, {:.8g} on one (allowed {:.0e})",
                            mine.loss, num_ranks, single_rank.loss, tolerances.loss));
  }
  const ReferenceGradients reference(single_rank.gradients);
  for (const OwnedGradient& gradient : mine.gradients) {
    ++result.num_cases;
    const double error = reference.error_of(gradient);
    result.note_error("gradient", error, gradient.parameter);
    if (error <= tolerances.gradient) continue;
    result.fail(fmt::format(
        "gradient of {}, elements {} to {}: differs by {:.2g} of its norm "
        "(allowed {:.0e}){}",
        gradient.parameter, gradient.begin, gradient.begin + gradient.values.numel() - 1, error,
        tolerances.gradient, reference.most_of_it(gradient)));
  }
  return result;
}

}  // namespace packtrain
