// The output of doctor: lines, JSON and the exit code.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/core/error.h"
#include "launch/doctor/judgement.h"

namespace packtrain {
namespace {

const char* name_of(Verdict verdict) {
  constexpr std::array kNames = {"OK", "SLOW", "BROKEN"};
  return kNames[static_cast<std::size_t>(verdict)];
}

}  // namespace

std::string findings_to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<7} {:<12} {}\n", name_of(finding.verdict), finding.check, finding.text);
    if (!finding.advice.empty()) text += fmt::format("{:21}{}\n", "", finding.advice);
  }
  return text;
}

std::string findings_to_json(const std::vector<Finding>& findings,
                             const std::vector<Facts>& facts) {
  Facts json = {{"checks", Facts::array()}, {"ranks", facts}};
  for (const Finding& finding : findings) {
    json["checks"].push_back({{"check", finding.check},
                              {"verdict", name_of(finding.verdict)},
                              {"text", finding.text},
                              {"advice", finding.advice}});
  }
  return json.dump() + "\n";
}

int exit_code_of(const std::vector<Finding>& findings) {
  const auto worst = std::ranges::max_element(findings, {}, &Finding::verdict)->verdict;
  if (worst == Verdict::kBroken) return static_cast<int>(ErrorCategory::kDevice);
  return worst == Verdict::kSlow ? kSlowExitCode : 0;
}

}  // namespace packtrain
