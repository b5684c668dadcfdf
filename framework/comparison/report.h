// A comparison as text for people, CSV, Markdown and JSON. One table of columns makes all four.
#pragma once

#include <string>

#include "framework/comparison/comparison.h"

namespace packtrain {

// A line a strategy. Several seeds: "mean ± spread". What is not known is "-".
std::string comparison_to_text(const Comparison& comparison);
std::string comparison_to_markdown(const Comparison& comparison);

// Header, then a line a strategy; each figure in two columns, KEY and KEY_spread, empty when not
// known.
std::string comparison_to_csv(const Comparison& comparison);

// One object: the figures of each strategy, and of each run its evaluations with their device time.
std::string comparison_to_json(const Comparison& comparison);

}  // namespace packtrain
