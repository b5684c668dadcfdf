#include "training/guards/step_guards.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using GuardJson = nlohmann::ordered_json;

// No step is within them.
constexpr RefusalBounds kSkipsAll = {.loss = -std::numeric_limits<double>::infinity(),
                                     .norm = -std::numeric_limits<double>::infinity()};

// The state of one of several guards.
std::string own_guard_state(const std::string& all, const std::string& name) {
  if (all.empty()) return "";
  try {
    return GuardJson::parse(all).at(name).dump();
  } catch (const GuardJson::exception& error) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("the checkpoint's 'guard' is damaged: {}", error.what()),
                "Use an older checkpoint.");
  }
}

}  // namespace

StepGuards::StepGuards(const GuardSection& options, std::vector<std::string> names,
                       std::vector<std::int64_t> num_steps, const std::set<std::int64_t>& left_out,
                       const std::string& state)
    : names_(std::move(names)), num_steps_(std::move(num_steps)) {
  const bool several = names_.size() > 1;
  for (const std::string& name : names_) {
    guards_.emplace_back(options, left_out, several ? own_guard_state(state, name) : state);
  }
}

std::vector<RefusalBounds> StepGuards::bounds(std::int64_t number) const {
  std::vector<RefusalBounds> bounds;
  for (std::size_t a = 0; a < guards_.size(); ++a) {
    bounds.push_back(has_step(a, number) ? guards_[a].bounds(number) : kSkipsAll);
  }
  return bounds;
}

void StepGuards::judge(std::int64_t number, const StepOutcome::Values& values) {
  if (guards_.size() == 1) {
    guards_.front().judge(number, values);
    return;
  }
  for (std::size_t a = 0; a < guards_.size(); ++a) {
    if (!has_step(a, number)) continue;
    const StepOutcome::AdapterValues& own = values.adapters.at(a);
    try {
      guards_[a].judge(number, {.loss = own.loss,
                                .grad_norm = own.grad_norm,
                                .applied = own.applied,
                                .requests = {},
                                .details = {},
                                .adapters = {}});
    } catch (const Error& error) {
      throw Error(error.category(), fmt::format("adapter '{}': {}", names_[a], error.message()),
                  error.advice());
    }
  }
}

std::string StepGuards::state() const {
  if (guards_.size() == 1) return guards_.front().state();
  GuardJson all = GuardJson::object();
  for (std::size_t a = 0; a < guards_.size(); ++a)
    all[names_[a]] = GuardJson::parse(guards_[a].state());
  return all.dump();
}

}  // namespace packtrain
