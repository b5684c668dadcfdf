// Writes a comparison as text for people, CSV, Markdown and JSON, from one table of columns.
#pragma once

#include <string>

#include "training/comparison/comparison.h"

namespace packtrain {

// One line a variant, then its differences to the first one. With several seeds: "mean ± spread".
// Unknown values are "-".
std::string comparison_to_text(const Comparison& comparison);
std::string comparison_to_markdown(const Comparison& comparison);

// A header, then one line a variant. Each figure has two columns, KEY and KEY_spread, which are
// empty when it is unknown.
std::string comparison_to_csv(const Comparison& comparison);

// One object: the figures of each variant (`strategies`), and for each run its evaluations with
// their device time.
std::string comparison_to_json(const Comparison& comparison);

}  // namespace packtrain
