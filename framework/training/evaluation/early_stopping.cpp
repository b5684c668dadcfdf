#include "framework/training/evaluation/early_stopping.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/support/error.h"

namespace packtrain {

EarlyStopping::EarlyStopping(std::int64_t patience, double min_delta, const std::string& state)
    : patience_(patience), min_delta_(min_delta) {
  if (state.empty()) return;
  try {
    const auto saved = nlohmann::json::parse(state);
    if (!saved.at("lowest").is_null()) lowest_ = saved.at("lowest").get<double>();
    saved.at("lowest_step").get_to(lowest_step_);
    saved.at("num_without").get_to(num_without_);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("the checkpoint's 'early_stopping' is damaged: {}", error.what()),
                "Use an older checkpoint.");
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
