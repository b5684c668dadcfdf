#include "training/evaluation/early_stopping.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace packtrain {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("the checkpoint's 'early_stopping' is damaged: {}", what),
              "Use an older checkpoint.");
}

std::int64_t count_from(const nlohmann::json& saved, const char* key) {
  const auto& count = saved.at(key);
  const bool is_count = count.is_number_integer() && count.get<std::int64_t>() >= 0;
  if (!is_count) fail(fmt::format("'{}' is no count", key));
  return count.get<std::int64_t>();
}

}  // namespace

EarlyStopping::EarlyStopping(std::int64_t patience, double min_delta, const std::string& state)
    : patience_(patience), min_delta_(min_delta) {
  if (state.empty()) return;
  try {
    const auto saved = nlohmann::json::parse(state);
    if (const auto& lowest = saved.at("lowest"); !lowest.is_null()) {
      if (!lowest.is_number()) fail("'lowest' is no number");
      lowest_ = lowest.get<double>();
    }
    lowest_step_ = count_from(saved, "lowest_step");
    num_without_ = count_from(saved, "num_without");
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
}

void EarlyStopping::add(std::int64_t step, double loss) {
  if (std::isfinite(loss) && (!lowest_ || loss < *lowest_ - min_delta_)) {
    lowest_ = loss;
    lowest_step_ = step;
    num_without_ = 0;
  } else {
    ++num_without_;
  }
}

std::string EarlyStopping::describe() const {
  if (!lowest_) return fmt::format("none of {} evaluations had a finite loss", num_without_);
  return fmt::format(
      "the validation loss was lowest, {:.6g}, after step {}, and {} evaluations since "
      "then were no better (run.early_stopping_patience: {}, min_delta: {:g})",
      *lowest_, lowest_step_, num_without_, patience_, min_delta_);
}

std::string EarlyStopping::state() const {
  nlohmann::ordered_json state;
  state["lowest"] = lowest_ ? nlohmann::ordered_json(*lowest_) : nlohmann::ordered_json();
  state["lowest_step"] = lowest_step_;
  state["num_without"] = num_without_;
  return state.dump();
}

}  // namespace packtrain
