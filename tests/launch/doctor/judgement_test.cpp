// Tests which facts of ranks are OK, SLOW or BROKEN, and which ranks are named.
#include "launch/doctor/judgement.h"

#include <gtest/gtest.h>

#include <functional>

#include "launch/doctor/machine.h"
#include "launch/doctor/probes.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

Facts sound_gpu() {
  return {{"name", "H200"},   {"power_limit_w", 700.0}, {"power_default_w", 700.0},
          {"sm_mhz", 1980.0}, {"sm_max_mhz", 1980.0},   {"throttled", false},
          {"ecc_errors", 0},  {"nvlinks", 18},          {"nvlinks_down", 0}};
}

Facts sound_rank(int rank, const std::string& host) {
  return {{"rank", rank},
          {"host", host},
          {"program", "packtrain 1"},
          {"libraries", {{"libnccl.so.2", "/lib/libnccl.so.2"}}},
          {"library_hash", "x"},
          {"gpu", sound_gpu()},
          {"gemm_tflops", 690.0 + rank % 8},
          {"fp8_gemm_tflops", 1290.0 + rank % 8},
          {"host_gather_gb_s", 300.0},
          {"gather_gb_s", 40.0},
          {"reduce_gb_s", 80.0},
          {"wrong_collective", ""},
          {"to_device_gb_s", 55.0},
          {"to_host_gb_s", 54.0},
          {"both_ways_gb_s", 46.0},
          {"disk_folder", "/runs"},
          {"disk_mb_s", 900.0},
          {"disk_error", ""},
          {"view_error", ""},
          {"stores", {{"/data/flan", "h"}}},
          {"clock_skew_s", 0.001},
          {"port", "metrics of rank 0 on 0.0.0.0:19400"},
          {"port_error", ""},
          {"open_files", 65536},
          {"user_processes", 65536},
          {"shared_memory_bytes", std::int64_t{1} << 34U}};
}

// Eight sound GPUs on two hosts.
std::vector<Facts> sound_facts() {
  std::vector<Facts> all;
  for (int rank = 0; rank < 8; ++rank) all.push_back(sound_rank(rank, rank < 4 ? "a" : "b"));
  return all;
}

// The one finding that is not OK.
Finding only_fault(const std::vector<Facts>& facts) {
  Finding fault;
  int num_faults = 0;
  for (const Finding& finding : judge(facts)) {
    if (finding.verdict == Verdict::kOk) continue;
    fault = finding;
    ++num_faults;
  }
  EXPECT_EQ(num_faults, 1);
  EXPECT_FALSE(fault.advice.empty());
  return fault;
}

// What one rank's fact, changed, leads to: "SLOW products", and that rank alone is named.
std::string verdict_of(const std::function<void(Facts&)>& change) {
  std::vector<Facts> facts = sound_facts();
  change(facts[5]);
  const Finding fault = only_fault(facts);
  EXPECT_NE(fault.text.find("rank 5 on b"), std::string::npos) << fault.text;
  EXPECT_EQ(fault.text.find("rank 4"), std::string::npos) << fault.text;
  return (fault.verdict == Verdict::kSlow ? "SLOW " : "BROKEN ") + fault.check;
}

TEST(Judgement, SoundMachinesAreOkLineByLine) {
  const auto findings = judge(sound_facts());
  EXPECT_EQ(findings.size(), 12U);
  for (const Finding& finding : findings) EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.text;
  EXPECT_EQ(exit_code_of(findings), 0);
}

TEST(Judgement, WhatIsSlowIsNamed) {
  EXPECT_EQ(verdict_of([](Facts& f) { f["gemm_tflops"] = 600.0; }), "SLOW products");
  EXPECT_EQ(verdict_of([](Facts& f) { f["fp8_gemm_tflops"] = 900.0; }), "SLOW fp8");
  EXPECT_EQ(verdict_of([](Facts& f) { f.erase("fp8_gemm_tflops"); }), "SLOW fp8");
  EXPECT_EQ(verdict_of([](Facts& f) { f["host_gather_gb_s"] = 40.0; }), "SLOW collectives");
  EXPECT_EQ(verdict_of([](Facts& f) { f["both_ways_gb_s"] = 20.0; }), "SLOW copies");
  EXPECT_EQ(verdict_of([](Facts& f) { f["disk_mb_s"] = 30.0; }), "SLOW disk");
  EXPECT_EQ(verdict_of([](Facts& f) { f["clock_skew_s"] = -7.0; }), "SLOW clocks");
  EXPECT_EQ(verdict_of([](Facts& f) { f["open_files"] = 256; }), "SLOW limits");
  EXPECT_EQ(verdict_of([](Facts& f) { f["shared_memory_bytes"] = 1; }), "SLOW limits");
  EXPECT_EQ(verdict_of([](Facts& f) { f["user_processes"] = 511; }), "SLOW limits");
  EXPECT_EQ(verdict_of([](Facts& f) { f["gpu"]["power_limit_w"] = 400.0; }), "SLOW gpus");
  EXPECT_EQ(verdict_of([](Facts& f) { f["gpu"]["throttled"] = true; }), "SLOW gpus");
  EXPECT_EQ(verdict_of([](Facts& f) { f["gpu"]["nvlinks_down"] = 2; }), "SLOW gpus");
  EXPECT_EQ(verdict_of([](Facts& f) { f["gpu"]["name"] = "H100"; }), "SLOW gpus");
}

TEST(Judgement, WhatIsBrokenIsNamed) {
  EXPECT_EQ(verdict_of([](Facts& f) { f["library_hash"] = "y"; }), "BROKEN versions");
  EXPECT_EQ(verdict_of([](Facts& f) { f["program"] = "packtrain 2"; }), "BROKEN versions");
  EXPECT_EQ(verdict_of([](Facts& f) { f["gpu"]["ecc_errors"] = 1; }), "BROKEN gpus");
  EXPECT_EQ(verdict_of([](Facts& f) { f["wrong_collective"] = "sums to 3"; }),
            "BROKEN collectives");
  EXPECT_EQ(verdict_of([](Facts& f) {
              f["disk_error"] = "is read-only";
              f.erase("disk_mb_s");
            }),
            "BROKEN disk");
  EXPECT_EQ(verdict_of([](Facts& f) { f["view_error"] = "no such file"; }), "BROKEN shared");
  EXPECT_EQ(verdict_of([](Facts& f) { f["stores"]["/data/flan"] = "missing"; }), "BROKEN stores");
  EXPECT_EQ(verdict_of([](Facts& f) { f["port_error"] = "no such address"; }), "BROKEN ports");
}

TEST(Judgement, TheWorstDecidesTheExitCode) {
  auto facts = sound_facts();
  facts[1]["gemm_tflops"] = 100.0;
  EXPECT_EQ(exit_code_of(judge(facts)), 76);
  facts[2]["wrong_collective"] = "sums to 3";
  EXPECT_EQ(exit_code_of(judge(facts)), 69);
}

TEST(Judgement, ASlowDiskEverywhereIsSlow) {
  auto facts = sound_facts();
  for (Facts& f : facts) f["disk_mb_s"] = 2.0;
  const Finding fault = only_fault(facts);
  EXPECT_EQ(fault.check, "disk");
  EXPECT_NE(fault.text.find("and 4 more"), std::string::npos) << fault.text;
}

TEST(Judgement, WithoutGpusThereIsNoLineOfThem) {
  auto facts = sound_facts();
  for (Facts& f : facts) f.erase("gpu");
  for (const Finding& finding : judge(facts)) EXPECT_NE(finding.check, "gpus");
}

TEST(Judgement, TextsSayVerdictCheckAndAdvice) {
  auto facts = sound_facts();
  facts[5]["clock_skew_s"] = 9.0;
  const std::string text = findings_to_text(judge(facts));
  EXPECT_NE(text.find("SLOW    clocks       clocks at most 9 s apart; off: rank 5 on b\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("OK      limits       "), std::string::npos) << text;
  const auto json = Facts::parse(findings_to_json(judge(facts), facts));
  EXPECT_EQ(json["ranks"].size(), 8U);
  EXPECT_EQ(json["checks"].size(), 12U);
}

TEST(NvidiaSmi, ItsLinesAreRead) {
  const Facts gpu = parse_gpu("500.00, 700.00, 1200, 1980, Not Active, Active, 3\n",
                              "GPU 0: NVIDIA H200\n\t Link 0: 26.562 GB/s\n"
                              "\t Link 1: 26.562 GB/s\n\t Link 2: <inactive>\n");
  EXPECT_EQ(gpu, (Facts{{"power_limit_w", 500.0},
                        {"power_default_w", 700.0},
                        {"sm_mhz", 1200.0},
                        {"sm_max_mhz", 1980.0},
                        {"throttled", true},
                        {"ecc_errors", 3},
                        {"nvlinks", 2},
                        {"nvlinks_down", 1}}));
}

TEST(NvidiaSmi, AValueThatAGpuDoesNotReportIsEmpty) {
  const Facts gpu = parse_gpu("[N/A], [N/A], 1200, 1980, Not Active, Not Active, [N/A]\n", "");
  EXPECT_EQ(gpu["power_limit_w"], 0.0);
  EXPECT_EQ(gpu["throttled"], false);
  EXPECT_EQ(gpu["ecc_errors"], 0);
  EXPECT_EQ(gpu["nvlinks_down"], 0);
}

TEST(OutputOf, IsWhatAProgramPrints) {
  EXPECT_EQ(output_of({"printf", "a b\n"}), "a b\n");
  EXPECT_EQ(output_of({"false"}), std::nullopt);
  EXPECT_EQ(output_of({"no-such-program-at-all"}), std::nullopt);
}

TEST(InjectedFault, IsReadOrRefused) {
  EXPECT_EQ(parse_injected_fault("disk:3", 4).kind, "disk");
  EXPECT_EQ(parse_injected_fault("disk:3", 4).rank, 3);
  for (const char* wrong : {"", "disk", "disk:", "disk:x", "disc:1", "disk:1x"}) {
    EXPECT_EQ(test::error_of([wrong] { parse_injected_fault(wrong, 4); }).exit_code(), 64) << wrong;
  }
}

}  // namespace
}  // namespace packtrain
