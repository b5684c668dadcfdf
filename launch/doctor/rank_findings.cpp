#include "launch/doctor/rank_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr std::size_t kMaxNamed = 4;

std::string place_of(const Facts& facts) {
  return fmt::format("rank {} on {}", facts.value("rank", 0), facts.value("host", "?"));
}

// "rank 1 on a, rank 3 on b and 5 more"
std::string places_of(const AllFacts& ranks) {
  std::vector<std::string> named;
  for (const Facts& facts : ranks) {
    if (named.size() < kMaxNamed) named.push_back(place_of(facts));
  }
  std::string text = fmt::format("{}", fmt::join(named, ", "));
  if (ranks.size() > kMaxNamed) text += fmt::format(" and {} more", ranks.size() - kMaxNamed);
  return text;
}

}  // namespace

AllFacts those(const AllFacts& all, const Condition& condition) {
  AllFacts found;
  std::ranges::copy_if(all, std::back_inserter(found), condition);
  return found;
}

void blame(Finding& finding, const AllFacts& ranks, Verdict verdict, const std::string& what,
           const std::string& advice) {
  if (ranks.empty()) return;
  finding.verdict = std::max(finding.verdict, verdict);
  finding.text += fmt::format("; {}: {}", what, places_of(ranks));
  finding.advice += fmt::format("{}{}", finding.advice.empty() ? "" : " ", advice);
}

void blame_complaints(Finding& finding, const AllFacts& all, const char* key,
                      const std::string& advice) {
  const AllFacts bad = those(all, [key](const Facts& f) { return !f.value(key, "").empty(); });
  if (!bad.empty()) blame(finding, bad, Verdict::kBroken, bad.front().value(key, ""), advice);
}

Finding judge_rate(const AllFacts& all, const char* key, const char* unit, double share,
                   const char* advice) {
  std::vector<double> rates;
  for (const Facts& facts : all) rates.push_back(facts.at(key));
  const double middle = upper_median(rates);
  const auto [low, high] = std::ranges::minmax(rates);
  Finding finding;
  finding.text = fmt::format("{:.4g} {}", middle, unit);
  if (all.size() > 1) {
    finding.text += fmt::format(" (median of {}, {:.4g} to {:.4g})", all.size(), low, high);
  }
  AllFacts slow =
      those(all, [&](const Facts& f) { return f.at(key).get<double>() < share * middle; });
  std::ranges::sort(slow, {}, [key](const Facts& f) { return f.at(key).get<double>(); });
  blame(finding, slow, Verdict::kSlow, "slow", advice);
  return finding;
}

}  // namespace packtrain
