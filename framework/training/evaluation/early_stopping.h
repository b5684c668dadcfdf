// When a run that no longer gets better is to end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace packtrain {

class EarlyStopping {
 public:
  // Over after `patience` evaluations in a row whose loss was not at least `min_delta` below the
  // lowest before them (0: never over). `state`: what state() gave when the run was saved, or
  // empty.
  EarlyStopping(std::int64_t patience, double min_delta, const std::string& state);

  // The loss of an evaluation; what is not finite is no improvement.
  void add(std::int64_t step, double loss);
  bool is_over() const { return patience_ > 0 && num_without_ >= patience_; }
  std::string describe() const;  // for people: the lowest loss, and how long ago it was

  std::string state() const;  // JSON

 private:
  std::int64_t patience_;
  double min_delta_;
  std::optional<double> lowest_;
  std::int64_t lowest_step_ = 0;
  std::int64_t num_without_ = 0;  // evaluations since
};

}  // namespace packtrain
