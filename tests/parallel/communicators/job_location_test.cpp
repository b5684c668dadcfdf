#include "parallel/communicators/tcp/job_location.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<JobLocation> place(const Variables& variables) {
  return locate_in_job([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun = {{"WORLD_SIZE", "4"},
                             {"RANK", "3"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RUN_ID", "job7"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"}};
const Variables kSlurm = {{"SLURM_STEP_ID", "2"},
                          {"SLURM_JOB_ID", "71"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NODELIST", "gpu[08-11,14]"}};

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}
Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(JobLocation, TorchrunServesTheStoreAndCountsItsRestarts) {
  const auto found = place(kTorchrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(found->address, "node1");
  EXPECT_EQ(found->port, 29500);
  EXPECT_TRUE(found->store_is_served);
  EXPECT_NE(found->start, place(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "2"))->start);
  EXPECT_FALSE(place(without(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"))->store_is_served);
}

TEST(JobLocation, OneProcessHasNone) {
  EXPECT_FALSE(place({}));
  EXPECT_FALSE(place({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
  EXPECT_FALSE(place({{"SLURM_NTASKS", "4"}}));  // a batch script
  EXPECT_FALSE(place(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1")));
}

TEST(JobLocation, AStepOfSlurmUsesItsFirstHost) {
  const auto found = place(kSlurm);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->size, 8);
  EXPECT_EQ(found->address, "gpu08");
  EXPECT_GT(found->port, 1024);
  EXPECT_NE(found->port, place(with(kSlurm, "SLURM_STEP_ID", "3"))->port);
  EXPECT_EQ(place(with(kSlurm, "SLURM_STEP_NUM_NODES", "1"))->address, "127.0.0.1");
  const auto told = place(with(with(kSlurm, "MASTER_ADDR", "10.0.0.1"), "MASTER_PORT", "4000"));
  EXPECT_EQ(told->address, "10.0.0.1");
  EXPECT_EQ(told->port, 4000);
}

TEST(JobLocation, TorchrunInAStepOfSlurmCounts) {
  Variables both = kSlurm;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(place(both)->size, 4);
}

TEST(JobLocation, WhatIsMissingOrWrongIsNamed) {
  const auto expect_named = [](const Variables& variables, const std::string& name) {
    try {
      place(variables);
      ADD_FAILURE() << name << " was not missed";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kDevice);
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    }
  };
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    expect_named(without(kTorchrun, name), name);
  }
  expect_named(with(kTorchrun, "RANK", "4"), "RANK");
  expect_named(with(kTorchrun, "MASTER_PORT", "70000"), "MASTER_PORT");
  expect_named(with(kTorchrun, "MASTER_PORT", "port"), "MASTER_PORT");
  expect_named({{"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "8"}}, "LOCAL_WORLD_SIZE");
  expect_named(without(kSlurm, "SLURM_PROCID"), "SLURM_PROCID");
  expect_named(without(kSlurm, "SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST");
}

TEST(JobLocation, FirstHostOfEachFormOfList) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("node7,node9"), "node7");
  EXPECT_EQ(first_host("gpu[08-11,14],login"), "gpu08");
  EXPECT_EQ(first_host("gpu[3,5]-ib"), "gpu3-ib");
  EXPECT_EQ(first_host("gpu[3]"), "gpu3");
}

}  // namespace
}  // namespace packtrain
