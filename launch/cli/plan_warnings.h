// Warnings about a planned run that is valid but likely to go wrong.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "launch/cli/plan_report.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// `store`: training data of the run. Reads a sample of its examples, and its tokenizer.
std::vector<PlanWarning> plan_warnings(const Config& config, const DecoderConfig& decoder,
                                       const TokenStore& store, const PlanReport& report);

// "packtrain plan: warning: ...", one line for each warning, with advice below it.
std::string warnings_to_text(const std::vector<PlanWarning>& warnings);

}  // namespace packtrain
