#include "framework/config/objective_section.h"

namespace packtrain {

double resolved_beta(const ObjectiveSection& section) {
  if (section.beta) return *section.beta;
  switch (section.kind) {
    case ObjectiveKind::kPolicy:
      return 0;
    case ObjectiveKind::kSimpo:
      return 2;
    default:
      return 0.1;
  }
}

double resolved_next_token_weight(const ObjectiveSection& section) {
  if (section.next_token_weight) return *section.next_token_weight;
  return section.kind == ObjectiveKind::kOrpo || section.kind == ObjectiveKind::kCpo ? 1 : 0;
}

}  // namespace packtrain
