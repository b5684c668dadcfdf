// Judges the machines of a job from the facts of all ranks.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace packtrain {

enum class Verdict { kOk, kSlow, kBroken };

// One line of doctor.
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string check;   // "disk"
  std::string text;    // the result, and where it is worst
  std::string advice;  // what the user should do; "" when OK
};

// A rank's facts: an object with "rank" and "host", and those of the following that were found:
// program, libraries {file: path}, library_hash; gpu {name, power_limit_w, power_default_w, sm_mhz,
// sm_max_mhz, throttled, ecc_errors, nvlinks, nvlinks_down}; gemm_tflops; host_gather_gb_s,
// gather_gb_s, reduce_gb_s, wrong_collective; to_device_gb_s, to_host_gb_s, both_ways_gb_s;
// disk_folder, disk_mb_s, disk_error; view_error; stores {path: hash or "missing"}; clock_skew_s;
// port, port_error; open_files, user_processes, shared_memory_bytes. A GPU that multiplies 8-bit
// floats has fp8_gemm_tflops too. A text *_error or wrong_collective is "" where nothing is wrong.
using Facts = nlohmann::ordered_json;

// Findings in the order of the lines. A check without facts has no line. `facts`: those of all
// ranks, by rank.
std::vector<Finding> judge(const std::vector<Facts>& facts);

// "OK     disk   ...", a line for each finding, with advice below those that are not OK.
std::string findings_to_text(const std::vector<Finding>& findings);
std::string findings_to_json(const std::vector<Finding>& findings, const std::vector<Facts>& facts);

constexpr int kSlowExitCode = 76;
// 0; 76 where a finding is slow; 69 where one is broken.
int exit_code_of(const std::vector<Finding>& findings);

}  // namespace packtrain
