// packtrain plan from outside: the memory that it counts, and for which hosts.
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/launch/cli/plan_fixture.h"

namespace packtrain {
namespace {

TEST_F(Plan, FindsATokenBudgetForTheMemoryLimit) {
  const std::string automatic = "batch.max_tokens_per_micro_batch=auto memory.limit_gib=";
  const Json given = plan("");
  EXPECT_EQ(given["max_tokens_per_micro_batch"], 512);
  EXPECT_TRUE(given["memory_limit_bytes"].is_null());
  const Json small = plan(automatic + "0.002");
  EXPECT_EQ(small["memory_limit_bytes"], 2'147'483);
  EXPECT_LE(small["predicted_memory_bytes"], 2'147'483);
  EXPECT_GE(small["max_tokens_per_micro_batch"], 256);
  const Json large = plan(automatic + "64");
  EXPECT_EQ(large["max_tokens_per_micro_batch"], 16 * 256);  // the largest step
  const Json here = plan("batch.max_tokens_per_micro_batch=auto parallel.backend=mpi");
  EXPECT_GT(here["memory_limit_bytes"], 0);
  const Outcome outcome = packtrain("plan config.yaml " + automatic + "0.0001");
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(count(outcome.said, "data.max_length = 256"), 1U) << outcome.said;
  const Outcome text = packtrain("plan config.yaml " + automatic + "64");
  EXPECT_EQ(count(text.said, "found for 64.00 GiB a rank: memory.limit_gib"), 1U) << text.said;
}

TEST_F(Plan, IsMadeForHostsAndTheirGroups) {
  const auto groups = [&](const std::string& arguments) {
    const Json json = plan("--memory parallel.backend=mpi " + arguments);
    return std::vector<int>{json["num_hosts"], json["ranks_per_host"], json["num_ranks"],
                            json["shard_size"]};
  };
  EXPECT_EQ(groups("--ranks 8"), (std::vector{1, 8, 8, 8}));
  EXPECT_EQ(groups("--hosts 2 --ranks-per-node 4"), (std::vector{2, 4, 8, 4}));
  EXPECT_EQ(groups("--hosts 2 --ranks 8"), (std::vector{2, 4, 8, 4}));
  EXPECT_EQ(groups("--ranks 8 --ranks-per-node 2"), (std::vector{4, 2, 8, 2}));
  EXPECT_EQ(groups("--ranks 12 --ranks-per-node 8"), (std::vector{2, 8, 12, 12}));
  EXPECT_EQ(groups("--hosts 4 --ranks-per-node 2 memory.limit_gib=0.0001"),
            (std::vector{4, 2, 8, 8}));  // no group fits
  const Outcome text = packtrain("plan config.yaml --memory --hosts 2 --ranks-per-node 4");
  EXPECT_EQ(count(text.said, "ranks 8: 2 hosts x 4, groups of 4,"), 1U) << text.said;
  for (const char* contradiction : {"--hosts 2 --ranks 7", "--hosts 3 --ranks 8 --ranks-per-node 4",
                                    "--hosts 1000000 --ranks-per-node 1000"}) {
    const Outcome refused = packtrain(std::string("plan config.yaml ") + contradiction);
    EXPECT_EQ(refused.exit_code, 64) << contradiction;
    EXPECT_EQ(count(refused.said, "Two of --ranks, --hosts and --ranks-per-node"), 1U)
        << refused.said;
  }
}

TEST_F(Plan, HostMemoryIsCountedByRankAndByHost) {
  const Json json =
      plan("--memory --hosts 2 --ranks-per-node 4 --gpu-gib 80 checkpoint.save_steps=5");
  std::int64_t together = json["host_bytes_shared"]["counts of examples"].get<std::int64_t>();
  EXPECT_EQ(together, 12 * kNumExamples);
  for (const char* purpose : {"snapshot of the state", "batches ahead", "step plans", "orders"}) {
    ASSERT_TRUE(json["host_bytes_of_a_rank"].contains(purpose)) << json;
    together += 4 * json["host_bytes_of_a_rank"][purpose].get<std::int64_t>();
  }
  EXPECT_EQ(json["predicted_host_bytes"], together);
  const Json& device = json["memory_bytes_by_purpose"];
  EXPECT_EQ(json["host_bytes_of_a_rank"]["snapshot of the state"],
            device["master weights"].get<std::int64_t>() + device["moments"].get<std::int64_t>());
  const Json without =
      plan("--memory data.train=nowhere checkpoint.asynchronous=false parallel.backend=mpi");
  EXPECT_FALSE(without["host_bytes_of_a_rank"].contains("snapshot of the state"));
  EXPECT_TRUE(without["host_bytes_shared"].empty());
  EXPECT_EQ(without["host_bytes_of_a_rank"]["training"], without["predicted_memory_bytes"]);
  const Outcome text = packtrain("plan config.yaml --memory data.train=nowhere");
  EXPECT_EQ(count(text.said, "examples not counted: the stores are not here"), 1U) << text.said;
}

TEST_F(Plan, HostMemoryIsComparedWithThatOfAHost) {
  const std::string arguments = "--ranks 2 --gpu-gib 80 memory.offload=optimizer ";
  const Json unknown = plan(arguments);
  EXPECT_TRUE(unknown["available_host_bytes"].is_null());
  const Json ample = plan(arguments + "--host-gib 64");
  EXPECT_EQ(ample["available_host_bytes"], std::int64_t{64} << 30);
  const std::int64_t need = ample["predicted_host_bytes"];
  const auto of_need = [&](double share) {
    return fmt::format("--host-gib {:.12f}", share * static_cast<double>(need) / (1 << 30));
  };
  const Json scarce = plan(arguments + of_need(1.2));  // a fifth is left to the program
  EXPECT_TRUE(names_of_warnings(scarce).contains("host_memory"));
  for (const Json& enough : {unknown, ample, plan(arguments + of_need(1.3))}) {
    EXPECT_FALSE(names_of_warnings(enough).contains("host_memory"));
  }
  const Outcome text = packtrain("plan config.yaml --memory " + arguments + of_need(0.5));
  for (const char* part : {"available on a host", "a host is to take", "optimizer.moments: bf16"}) {
    EXPECT_EQ(count(text.said, part), 1U) << part << "\n" << text.said;
  }
}

TEST_F(Plan, CheckpointsHaveWeightsAndMomentsUnlessTheseAreLeftOut) {
  const Json whole = plan("--memory checkpoint.keep=5");
  const std::int64_t num_parameters = whole["num_parameters"];
  EXPECT_GE(whole["checkpoint_bytes"], 12 * num_parameters);
  EXPECT_LE(whole["checkpoint_bytes"], 15 * num_parameters);  // parts are rounded up
  EXPECT_EQ(whole["max_checkpoints"], 6);
  const Json narrow = plan("--memory optimizer.moments=bf16");
  EXPECT_EQ(3 * narrow["checkpoint_bytes"].get<std::int64_t>(),
            2 * whole["checkpoint_bytes"].get<std::int64_t>());
  const Json weights = plan("--memory checkpoint.weights_only=true");
  EXPECT_EQ(3 * weights["checkpoint_bytes"].get<std::int64_t>(), whole["checkpoint_bytes"]);
}

TEST_F(Plan, MemoryByPurposeAddsUp) {
  const Json json = plan("--ranks 2 --gpu-gib 80");
  std::int64_t together = 0;
  for (const auto& [name, bytes] : json["memory_bytes_by_purpose"].items()) {
    EXPECT_GT(bytes.get<std::int64_t>(), 0) << name;
    together += bytes.get<std::int64_t>();
  }
  EXPECT_EQ(json["predicted_memory_bytes"], together);
  const Json& purposes = json["memory_bytes_by_purpose"];
  const std::int64_t outside = purposes["context"].get<std::int64_t>() +
                               purposes["libraries"].get<std::int64_t>() +
                               purposes["NCCL"].get<std::int64_t>();
  EXPECT_EQ(json["predicted_allocated_bytes"], together - outside);
  EXPECT_EQ(json["gpu_memory_bytes"], 80LL << 30);
  for (const char* name : {"master weights", "gather slots", "activations", "context"}) {
    EXPECT_TRUE(json["memory_bytes_by_purpose"].contains(name)) << name;
  }
  EXPECT_TRUE(plan("parallel.backend=mpi")["gpu_memory_bytes"].is_null());
}

TEST_F(Plan, ShowsWhatMemoryFitChooses) {
  const std::string arguments = "--memory parallel.backend=mpi data.train=nowhere ";
  const std::int64_t needed = plan(arguments)["predicted_memory_bytes"];
  const std::int64_t limit_bytes = needed * 8 / 10;
  const std::string limit =
      fmt::format("memory.limit_gib={}", static_cast<double>(limit_bytes) / (1 << 30));
  const Json fitted = plan(arguments + limit);
  EXPECT_LE(fitted["predicted_memory_bytes"], limit_bytes);
  EXPECT_NE(fitted["recompute"], "none");
  EXPECT_EQ(fitted["max_tokens_per_micro_batch"], 512);  // set in the file
  const Json by_hand =
      plan(arguments + "memory.recompute=" + fitted["recompute"].get<std::string>());
  EXPECT_EQ(by_hand["predicted_memory_bytes"], fitted["predicted_memory_bytes"]);
  const Outcome text = packtrain("plan config.yaml " + arguments + limit);
  const std::string choice =
      "memory.fit: memory.recompute=" + fitted["recompute"].get<std::string>() +
      " parallel.gather_slots=3 batch.max_tokens_per_micro_batch=512";
  EXPECT_EQ(count(text.said, choice), 1U) << text.said;
  EXPECT_EQ(plan(arguments + limit + " memory.fit=off")["predicted_memory_bytes"], needed);
}

TEST_F(Plan, NamesWhatWouldFitWhereMemoryFitFindsNothing) {
  const Outcome text =
      packtrain("plan config.yaml --memory parallel.backend=mpi memory.limit_gib=0.0005");
  EXPECT_EQ(text.exit_code, 0) << text.said;
  EXPECT_EQ(count(text.said, "nothing fits; train ends before step 1 with exit code 69"), 1U)
      << text.said;
  EXPECT_EQ(count(text.said, "What fits: "), 1U) << text.said;
}

TEST_F(Plan, MemoryAloneNeedsNoData) {
  const std::string arguments = "--memory --ranks 4 --gpu-gib 16 data.train=nowhere";
  const Json json = plan(arguments);
  EXPECT_EQ(json["max_tokens_per_micro_batch"], 512);
  EXPECT_GT(json["predicted_memory_bytes"], 0);
  EXPECT_FALSE(json.contains("strategy"));
  const Outcome text = packtrain("plan config.yaml " + arguments);
  EXPECT_EQ(text.exit_code, 0) << text.said;
  for (const char* part : {"ranks 4", "gather slots", "of 16.00 GiB"}) {
    EXPECT_EQ(count(text.said, part), 1U) << part << "\n" << text.said;
  }
}

TEST_F(Plan, AConfigThatDoesNotFitIsReportedWithOneThatDoes) {
  const std::string large =
      "memory.fit=off batch.max_tokens_per_micro_batch=2000000 batch.global_batch_size=1000000 "
      "--gpu-gib ";
  const Outcome ample = packtrain("plan config.yaml --memory " + large + "64");
  EXPECT_EQ(count(ample.said, "What fits"), 0U) << ample.said;
  const Outcome scarce = packtrain("plan config.yaml --memory " + large + "2");
  EXPECT_EQ(scarce.exit_code, 0) << scarce.said;
  for (const char* part : {"the device has 2.00", "What fits: ", "_batch=auto takes "}) {
    EXPECT_EQ(count(scarce.said, part), 1U) << part << "\n" << scarce.said;
  }
}

}  // namespace
}  // namespace packtrain
