// What of a planned run will hurt, though nothing forbids it.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "launch/cli/plan_report.h"
#include "models/decoder_config.h"

namespace packtrain {

// `store`: of the run's training data. Reads a sample of its examples, and its tokenizer.
std::vector<PlanWarning> plan_warnings(const Config& config, const DecoderConfig& decoder,
                                       const TokenStore& store, const PlanReport& report);

// "packtrain plan: warning: ...", a warning a line, with advice below it.
std::string warnings_to_text(const std::vector<PlanWarning>& warnings);

}  // namespace packtrain
