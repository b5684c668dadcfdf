// Decides when a run whose loss no longer improves ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace packtrain {

class EarlyStopping {
 public:
  // Over after `patience` evaluations in a row whose loss was not at least `min_delta` below the
  // lowest loss before them (0: never over). `state`: the saved state(), or empty.
  EarlyStopping(std::int64_t patience, double min_delta, const std::string& state);

  // Adds the loss of an evaluation. A non-finite loss is no improvement.
  void add(std::int64_t step, double loss);
  bool is_over() const { return patience_ > 0 && num_without_ >= patience_; }
  std::string describe() const;  // for people: the lowest loss, and how long ago it was

  std::string state() const;  // JSON

 private:
  std::int64_t patience_;
  double min_delta_;
  std::optional<double> lowest_;
  std::int64_t lowest_step_ = 0;
  std::int64_t num_without_ = 0;  // evaluations since then
};

}  // namespace packtrain
