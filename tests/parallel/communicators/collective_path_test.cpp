#include "parallel/communicators/collective_path.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr PathFacts kAll{.nccl_version = 22809,
                         .driver_version = 13000,
                         .one_host = true,
                         .cta_policy = true,
                         .windows = true};

PathChoice best(const PathFacts& facts) {
  return choose_path({.path = CollectivePath::kCopyEngine}, facts);
}

TEST(CollectivePath, IsTheOneAskedForWhereItCanBeHad) {
  for (const auto path :
       {CollectivePath::kRing, CollectivePath::kSymmetric, CollectivePath::kCopyEngine}) {
    const PathChoice choice = choose_path({.path = path, .required = true}, kAll);
    EXPECT_EQ(choice.path, path);
    EXPECT_EQ(choice.missing, "");
  }
}

TEST(CollectivePath, FallsFromCopyEnginesToSymmetricKernels) {
  PathFacts facts = kAll;
  facts.driver_version = 12040;
  EXPECT_EQ(best(facts).path, CollectivePath::kSymmetric);
  EXPECT_NE(best(facts).missing.find("found 12.4"), std::string::npos);
  facts = kAll;
  facts.cta_policy = false;
  EXPECT_EQ(best(facts).path, CollectivePath::kSymmetric);
  EXPECT_NE(best(facts).missing.find("NCCL_CTA_POLICY"), std::string::npos);
}

TEST(CollectivePath, FallsToTheRingWithoutWindowsAcrossHostsAndOnUnsoundVersions) {
  PathFacts facts = kAll;
  facts.windows = false;
  EXPECT_EQ(best(facts).path, CollectivePath::kRing);
  EXPECT_NE(best(facts).missing.find("NCCL_WIN_ENABLE"), std::string::npos);
  facts = kAll;
  facts.one_host = false;
  EXPECT_EQ(best(facts).path, CollectivePath::kRing);
  EXPECT_EQ(best(facts).missing, "all ranks on one host");
  facts = kAll;
  facts.nccl_version = 22803;
  EXPECT_EQ(best(facts).path, CollectivePath::kRing);
  EXPECT_EQ(best(facts).missing, "NCCL 2.28.7 or newer, found 2.28.3");
  EXPECT_EQ(choose_path({.path = CollectivePath::kSymmetric}, facts).path, CollectivePath::kRing);
}

TEST(CollectivePath, ARequiredOneThatCannotBeHadIsAnErrorNamingWhatIsMissing) {
  PathFacts facts = kAll;
  facts.one_host = false;
  for (const auto path : {CollectivePath::kSymmetric, CollectivePath::kCopyEngine}) {
    try {
      choose_path({.path = path, .required = true}, facts);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kDevice);
      EXPECT_NE(error.message().find(path_name(path)), std::string::npos);
      EXPECT_NE(error.message().find("all ranks on one host"), std::string::npos);
    }
  }
  EXPECT_EQ(choose_path({.path = CollectivePath::kRing, .required = true}, facts).path,
            CollectivePath::kRing);
}

TEST(NcclVersion, AnOlderOneThanBuiltAgainstIsRefused) {
  EXPECT_NO_THROW(require_nccl_version(22809, 22809));
  EXPECT_NO_THROW(require_nccl_version(23006, 22809));
  try {
    require_nccl_version(22803, 22809);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "NCCL at run time is 2.28.3, built against 2.28.9");
  }
}

}  // namespace
}  // namespace packtrain
