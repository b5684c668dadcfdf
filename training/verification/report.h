// Results of verification: one for each check, the same on every rank after merging.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// The largest error of a check and its location.
struct WorstError {
  std::string name;        // "gradient"
  double value = 0;        // relative; 0 = bit-equal
  std::string where = {};  // parameter, example or micro-batch; may be empty
};

struct CheckResult {
  static constexpr std::size_t kMaxListed = 8;  // failures kept as text, for each rank

  std::string name;                 // for machines: "packed"
  std::string claim;                // for people: "packed = one by one"
  std::string case_name;            // what is counted: "examples"
  std::int64_t num_cases = 0;       // 0: nothing was compared
  bool same_on_every_rank = false;  // the ranks did the same work: cases are counted once
  std::vector<WorstError> errors = {};
  std::vector<std::string> failures = {};  // each names the example, parameter or rank
  std::int64_t num_failures = 0;           // includes those that are not listed

  bool passed() const { return num_failures == 0; }
  void fail(std::string text);
  // Keeps the larger of `value` and the error of that name. NaN is larger than all.
  void note_error(const std::string& error_name, double value, const std::string& where);
  // Adds the result of the same check in another step.
  void add(const CheckResult& other);
};

struct VerificationReport {
  std::string strategy;
  std::string precision;
  int num_ranks = 1;
  std::int64_t num_steps = 0;
  std::int64_t num_examples = 0;
  std::int64_t num_micro_batches = 0;  // of a rank
  std::vector<CheckResult> checks;

  std::vector<std::string> failed_checks() const;  // names
};

// Merges the results of all ranks, the same on each. A failure that not every rank saw gets the
// ranks that saw it: "rank 1: ...". Collective. All ranks must pass the same check.
CheckResult merge_over_ranks(const CheckResult& mine, Communicator& control);

}  // namespace packtrain
