// The errors that planners throw.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"

namespace packtrain::test {

inline Error error_of(const Examples& examples, const PlanOptions& options) {
  try {
    make_planner(examples, options);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCategory::kInternal, "no error was thrown"};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace packtrain::test
