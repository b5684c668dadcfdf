// Findings about some of the ranks, which name them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/doctor/judgement.h"

namespace packtrain {

using AllFacts = std::vector<Facts>;
using Condition = std::function<bool(const Facts&)>;

AllFacts those(const AllFacts& all, const Condition& condition);

// Adds a finding about `ranks`, if there are any.
void blame(Finding& finding, const AllFacts& ranks, Verdict verdict, const std::string& what,
           const std::string& advice);
// As blame(), with the text of each rank under `key`, if it is not empty.
void blame_complaints(Finding& finding, const AllFacts& all, const char* key,
                      const std::string& advice);

// Judges a rate of every rank: SLOW names the ranks below `share` of the median, slowest first.
Finding judge_rate(const AllFacts& all, const char* key, const char* unit, double share,
                   const char* advice);

}  // namespace packtrain
