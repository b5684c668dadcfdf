#include "models/objectives/make_objective.h"

#include "framework/core/error.h"
#include "models/objectives/kto.h"
#include "models/objectives/next_token.h"
#include "models/objectives/pairs.h"
#include "models/objectives/policy.h"

namespace packtrain {

std::shared_ptr<const Objective> make_objective(const ObjectiveSection& section) {
  switch (section.kind) {
    case ObjectiveKind::kNextToken:
      return std::make_shared<NextToken>();
    case ObjectiveKind::kDpo:
    case ObjectiveKind::kIpo:
    case ObjectiveKind::kOrpo:
    case ObjectiveKind::kSimpo:
    case ObjectiveKind::kCpo:
      return std::make_shared<PairObjective>(section);
    case ObjectiveKind::kKto:
      return std::make_shared<Kto>(section);
    case ObjectiveKind::kPolicy:
      return std::make_shared<PolicyGradient>(section);
  }
  throw Error(ErrorCategory::kInternal, "objective: unknown kind");
}

}  // namespace packtrain
