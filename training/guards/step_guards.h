// The step guards of a run: one for each adapter, where several are trained together.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "training/guards/step_guard.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

class StepGuards {
 public:
  // `names`: of the adapters; one element where several are not trained. `num_steps`: of each.
  // `left_out` and `state` as for StepGuard.
  StepGuards(const GuardSection& options, std::vector<std::string> names,
             std::vector<std::int64_t> num_steps, const std::set<std::int64_t>& left_out,
             const std::string& state);

  // The bounds of each adapter. They skip an adapter whose steps are over.
  std::vector<RefusalBounds> bounds(std::int64_t number) const;
  // Call it for each step in order. Throws Error(kNonFinite) when the run must stop.
  void judge(std::int64_t number, const StepOutcome::Values& values);
  // The first step that was judged StepGuard::Verdict::kRewind.
  std::optional<std::int64_t> rewind_step() const { return guards_.front().rewind_step(); }

  std::string state() const;  // JSON

 private:
  bool has_step(std::size_t adapter, std::int64_t number) const {
    return number <= num_steps_[adapter];
  }

  std::vector<std::string> names_;
  std::vector<std::int64_t> num_steps_;
  std::vector<StepGuard> guards_;
};

}  // namespace packtrain
