#include "launch/doctor/judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "framework/core/math.h"
#include "launch/doctor/limits.h"
#include "launch/doctor/rank_findings.h"

namespace packtrain {
namespace {

constexpr double kSlowGpu = 0.9;   // of the median GPU's rate
constexpr double kSlowLink = 0.7;  // of the median host's
// CPUs and disks are shared with other work, so only large deviations count.
constexpr double kSlowCpu = 0.2;
constexpr double kSlowDisk = 0.2;
// While all write: for a rank, and for all together, which is enough with many ranks.
constexpr double kMinDiskMbPerS = 5;
constexpr double kMinDiskMbPerSOfAll = 2000;
constexpr double kMaxClockSkewS = 1.0;

Finding judge_versions(const AllFacts& all) {
  std::map<std::string, AllFacts> versions;
  for (const Facts& f : all) {
    versions[f.at("program").get<std::string>() + f.value("library_hash", "")].push_back(f);
  }
  Finding finding;
  finding.text = all.front().at("program").get<std::string>();
  for (const auto& [name, path] : all.front().at("libraries").items()) {
    finding.text += fmt::format("\n{:21}{}: {}", "", name, path.get<std::string>());
  }
  if (versions.size() == 1) return finding;
  const auto size = [](const auto& entry) { return entry.second.size(); };
  blame(finding, std::ranges::min_element(versions, {}, size)->second, Verdict::kBroken,
        "another program or other libraries",
        "Install the same build and the same Python environment on every host.");
  return finding;
}

Condition gpu_is(const std::function<bool(const Facts& gpu)>& condition) {
  return [condition](const Facts& facts) { return condition(facts.at("gpu")); };
}

Finding judge_gpus(const AllFacts& all) {
  std::map<std::string, AllFacts> names;
  for (const Facts& facts : all) names[facts.at("gpu").value("name", "?")].push_back(facts);
  const Facts& first = all.front().at("gpu");
  Finding finding;
  finding.text = fmt::format("{} x {}, power cap {:.0f} W, clock {:.0f} of {:.0f} MHz, {} NVLinks",
                             all.size(), first.value("name", "?"),
                             first.value("power_limit_w", 0.0), first.value("sm_mhz", 0.0),
                             first.value("sm_max_mhz", 0.0), first.value("nvlinks", 0));
  const auto size = [](const auto& entry) { return entry.second.size(); };
  if (names.size() > 1) {
    blame(finding, std::ranges::min_element(names, {}, size)->second, Verdict::kSlow,
          "another kind of GPU", "Every step lasts as long as the slowest GPU's.");
  }
  blame(finding, those(all, gpu_is([](const Facts& gpu) {
                         return gpu.value("power_limit_w", 0.0) < gpu.value("power_default_w", 0.0);
                       })),
        Verdict::kSlow, "power capped below the default", "Have the cap lifted.");
  blame(finding, those(all, gpu_is([](const Facts& gpu) { return gpu.value("throttled", false); })),
        Verdict::kSlow, "slowed by heat or the power brake", "Check the host's cooling and power.");
  blame(finding,
        those(all, gpu_is([](const Facts& gpu) { return gpu.value("nvlinks_down", 0) > 0; })),
        Verdict::kSlow, "NVLinks are down", "`nvidia-smi nvlink --status` shows which.");
  blame(finding,
        those(all, gpu_is([](const Facts& gpu) { return gpu.value("ecc_errors", 0) > 0; })),
        Verdict::kBroken, "uncorrected memory errors", "Take the host out and reset the GPU.");
  return finding;
}

Finding judge_products(const AllFacts& all) {
  const bool on_gpus = all.front().contains("gpu");
  return judge_rate(all, "gemm_tflops",
                    on_gpus ? "TFLOP/s in bf16 products" : "TFLOP/s in fp32 products",
                    on_gpus ? kSlowGpu : kSlowCpu,
                    "Look for other work on it, heat, and a lower power cap; leave the host out.");
}

Finding judge_fp8_products(const AllFacts& all) {
  const auto has_rate = [](const Facts& f) { return f.contains("fp8_gemm_tflops"); };
  Finding finding =
      judge_rate(those(all, has_rate), "fp8_gemm_tflops", "TFLOP/s in 8-bit products", kSlowGpu,
                 "Look for other work on it, heat, and a lower power cap; leave the host out.");
  blame(finding, those(all, [&](const Facts& f) { return !has_rate(f); }), Verdict::kSlow,
        "without 8-bit products",
        "precision.linear: fp8_tensor needs compute capability 8.9 or newer on every rank.");
  return finding;
}

Finding judge_collectives(const AllFacts& all) {
  const bool on_gpus = all.front().contains("gpu");
  Finding finding =
      judge_rate(all, "host_gather_gb_s", "GB/s gathering inside a host", on_gpus ? kSlowLink : 0.0,
                 "`nvidia-smi topo -m` shows how its GPUs are joined.");
  finding.text +=
      fmt::format("; all ranks: all-gather {:.4g} GB/s, all-reduce {:.4g} GB/s",
                  all.front().value("gather_gb_s", 0.0), all.front().value("reduce_gb_s", 0.0));
  blame_complaints(finding, all, "wrong_collective",
                   "Do not train on these machines: NCCL_DEBUG=INFO tells the path that is taken.");
  return finding;
}

Finding judge_host_copies(const AllFacts& all) {
  Finding finding =
      judge_rate(all, "both_ways_gb_s", "GB/s each way between host and GPU", kSlowLink,
                 "`nvidia-smi -q` shows the generation and width of its PCIe link.");
  finding.text +=
      fmt::format("; alone: to the GPU {:.4g} GB/s, to the host {:.4g} GB/s",
                  all.front().value("to_device_gb_s", 0.0), all.front().value("to_host_gb_s", 0.0));
  return finding;
}

Finding judge_disk(const AllFacts& all) {
  const AllFacts able = those(all, [](const Facts& f) { return f.contains("disk_mb_s"); });
  Finding finding;
  if (!able.empty()) {
    finding = judge_rate(able, "disk_mb_s", "MB/s a rank written and synced", kSlowDisk,
                         "Checkpoints wait for it: try another folder or host.");
  }
  finding.text += fmt::format(" in {}", all.front().value("disk_folder", "?"));
  if (finding.verdict == Verdict::kOk) {
    const double least =
        std::min(kMinDiskMbPerS, kMinDiskMbPerSOfAll / static_cast<double>(all.size()));
    const auto is_slow = [least](const Facts& f) {
      return f.at("disk_mb_s").get<double>() < least;
    };
    blame(finding, those(able, is_slow), Verdict::kSlow, "slow",
          "Checkpoints wait for it: try another folder.");
  }
  blame_complaints(finding, all, "disk_error", "Set run.output to a folder that can be written.");
  return finding;
}

Finding judge_shared_folder(const AllFacts& all) {
  Finding finding;
  finding.text =
      fmt::format("all ranks see the same files in {}", all.front().value("disk_folder", "?"));
  const AllFacts bad =
      those(all, [](const Facts& f) { return !f.value("view_error", "").empty(); });
  if (bad.empty()) return finding;
  finding.text =
      fmt::format("{} is not one folder for all ranks", all.front().value("disk_folder", "?"));
  blame_complaints(finding, all, "view_error",
                   "run.output must be on a file system that all hosts mount.");
  return finding;
}

Finding judge_stores(const AllFacts& all) {
  Finding finding;
  const Facts& wanted = all.front().at("stores");
  finding.text = fmt::format("{} token stores, the same on all ranks", wanted.size());
  for (const auto& [path, hash] : wanted.items()) {
    const auto differs = [&, path = path, hash = hash](const Facts& f) {
      return f.at("stores").at(path) != hash || hash == "missing";
    };
    blame(finding, those(all, differs), Verdict::kBroken, path + " is missing or another",
          "Copy the store there, or mount the folder.");
  }
  return finding;
}

Finding judge_clocks(const AllFacts& all) {
  double most = 0;
  for (const Facts& f : all) most = std::max(most, std::abs(f.at("clock_skew_s").get<double>()));
  Finding finding;
  finding.text = fmt::format("clocks at most {:.2g} s apart", most);
  const auto is_off = [](const Facts& f) {
    return std::abs(f.at("clock_skew_s").get<double>()) > kMaxClockSkewS;
  };
  blame(finding, those(all, is_off), Verdict::kSlow, "off",
        "Run chrony or ntpd: logs, traces and metrics of the hosts will not match.");
  return finding;
}

Finding judge_ports(const AllFacts& all) {
  Finding finding;
  finding.text = all.front().value("port", "metrics are not served");
  blame_complaints(finding, all, "port_error",
                   "Set metrics.address to an address of every host, for example 0.0.0.0.");
  return finding;
}

Finding judge_limits(const AllFacts& all) {
  std::map<std::string, int> ranks_of_host;
  for (const Facts& f : all) ++ranks_of_host[f.at("host")];
  const auto needs_of = [&](const Facts& f) {
    return limits_needed(static_cast<int>(all.size()), ranks_of_host.at(f.at("host")),
                         f.contains("gpu"));
  };
  const auto least = [&all](const char* key) {
    std::int64_t value = all.front().at(key);
    for (const Facts& f : all) value = std::min(value, f.at(key).get<std::int64_t>());
    return value;
  };
  Finding finding;
  finding.text = fmt::format("{} open files, {} MiB of /dev/shm free", least("open_files"),
                             least("shared_memory_bytes") / kMiB);
  for (const LimitKind& limit : limit_kinds()) {
    const AllFacts few =
        those(all, [&](const Facts& f) { return f.at(limit.key) < needs_of(f).*limit.need; });
    if (few.empty()) continue;
    const std::int64_t wanted = needs_of(few.front()).*limit.need / limit.unit;
    blame(finding, few, Verdict::kSlow, fmt::format(fmt::runtime(limit.what), wanted),
          limit.advice);
  }
  return finding;
}

struct JudgedCheck {
  const char* check;
  const char* key;  // the line exists when rank 0 has this fact
  Finding (*judge)(const AllFacts&);
};

constexpr auto kJudgedChecks = std::to_array<JudgedCheck>({
    {"versions", "libraries", judge_versions},
    {"gpus", "gpu", judge_gpus},
    {"products", "gemm_tflops", judge_products},
    {"fp8", "fp8_gemm_tflops", judge_fp8_products},
    {"collectives", "host_gather_gb_s", judge_collectives},
    {"copies", "both_ways_gb_s", judge_host_copies},
    {"disk", "disk_folder", judge_disk},
    {"shared", "view_error", judge_shared_folder},
    {"stores", "stores", judge_stores},
    {"clocks", "clock_skew_s", judge_clocks},
    {"ports", "port", judge_ports},
    {"limits", "open_files", judge_limits},
});

}  // namespace

std::vector<Finding> judge(const std::vector<Facts>& facts) {
  std::vector<Finding> findings;
  for (const JudgedCheck& judged : kJudgedChecks) {
    if (!facts.front().contains(judged.key)) continue;
    findings.push_back(judged.judge(facts));
    findings.back().check = judged.check;
  }
  return findings;
}

}  // namespace packtrain
