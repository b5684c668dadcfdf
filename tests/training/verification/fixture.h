// A small run to verify, whole or with one of its protections switched off.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/world_fixture.h"
#include "training/verification/verification.h"

namespace packtrain::test {

class VerificationTest : public ::testing::Test {
 protected:
  VerificationTest();  // a store of random ids on every rank, a Llama of two layers, fp32

  VerificationReport verify(const VerificationOptions& options = {}) {
    return run_verification(config_, test_world(), options);
  }
  // With what `damage` does to every packed batch.
  VerificationReport verify_damaged(const std::function<void(PackedBatch&)>& damage);

  Config config_;

 private:
  test::TemporaryFolder folder_;
};

const CheckResult& check_named(const VerificationReport& report, const std::string& name);

// True where a failure of the check holds all the words.
bool says(const CheckResult& check, const std::vector<std::string>& words);

// For messages of assertions.
std::string all_failures(const VerificationReport& report);

using Names = std::vector<std::string>;

}  // namespace packtrain::test
