#include "training/comparison/energy_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/metrics/last_lines.h"
#include "training/setup/gpu_assignment.h"

namespace packtrain {
namespace {

constexpr std::chrono::milliseconds kInterval(200);

std::string energy_path(const std::string& folder, int rank) {
  return fmt::format("{}/energy-rank-{}.jsonl", folder, rank);
}

// The step of the newest line of a growing metrics.jsonl. 0 before the first one.
std::int64_t newest_step(const std::string& path) {
  std::int64_t step = 0;
  if (!std::filesystem::exists(path)) return step;
  visit_lines_backwards(path, ErrorCategory::kConfig, [&](std::string_view text, std::size_t) {
    if (!text.ends_with('\n')) return true;  // it is being written
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object()) step = line.value("step", std::int64_t{0});
    return false;
  });
  return step;
}

bool trains_on_gpus(const Config& config, const std::vector<std::optional<int>>& assigned) {
  const auto backend = config.parallel.backend.value_or(Backend::kNccl);
  return backend == Backend::kNccl &&
         std::ranges::all_of(assigned, [](const auto& gpu) { return gpu.has_value(); });
}

// Joules of one rank by the number of finished steps. A number that several lines have keeps the
// last one.
std::map<std::int64_t, double> read_rank(const std::string& path) {
  std::map<std::int64_t, double> joules;
  double sum = 0;
  std::string text = read_text(path, ErrorCategory::kData);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (line.is_discarded()) continue;  // the process ended while it wrote this line
    if (!line["joules"].is_number()) return {};
    sum += line["joules"].get<double>();
    const auto step = line["step"].get<std::int64_t>();
    joules.erase(joules.upper_bound(step), joules.end());  // a run that resumed does them again
    joules[step] = sum;
  }
  return joules;
}

// Between two numbers of steps the energy is interpolated.
double joules_at(const std::map<std::int64_t, double>& joules, std::int64_t step) {
  const auto after = joules.lower_bound(step);
  if (after == joules.end()) return joules.rbegin()->second;
  if (after->first == step || after == joules.begin()) return after->second;
  const auto before = std::prev(after);
  const double share =
      static_cast<double>(step - before->first) / static_cast<double>(after->first - before->first);
  return before->second + share * (after->second - before->second);
}

}  // namespace

RankMeter make_rank_meter(const Config& config, World& world) {
  const std::vector<GpusOfRank> gpus = gather_gpus(world);
  const std::vector<std::optional<int>> assigned = assign_gpus(gpus);
  const auto rank = static_cast<std::size_t>(world.rank());
  RankMeter found;
  if (trains_on_gpus(config, assigned)) {
    const auto index = static_cast<std::size_t>(assigned[rank].value());
    found.meter = make_gpu_energy_meter(gpus[rank].visible.at(index));
  } else if (world.local_rank() == 0) {
    found.meter = make_cpu_energy_meter();
  } else {
    found.is_measured = true;
  }
  found.is_measured = found.is_measured || found.meter != nullptr;
  double num_missing = found.is_measured ? 0 : 1;
  world.control().all_reduce(&num_missing, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
  return num_missing == 0 ? std::move(found) : RankMeter{};
}

EnergyLog::EnergyLog(const std::string& folder, int rank, RankMeter meter)
    : folder_(folder), path_(energy_path(folder, rank)), meter_(std::move(meter)) {
  if (!meter_.is_measured) return;
  make_folders(folder, ErrorCategory::kConfig);
  thread_ = std::thread([this] { run(); });
}

EnergyLog::~EnergyLog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

// A comparison does not fail because its energy cannot be written.
void EnergyLog::run() {
  try {
    std::unique_lock lock(mutex_);
    while (!is_stopped_) {
      record();
      stopped_.wait_for(lock, kInterval, [this] { return is_stopped_; });
    }
    record();
  } catch (const std::exception& error) {
    log_warning("the energy of this run is not measured: {}", error.what());
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
}

void EnergyLog::record() {
  const double joules = meter_.meter == nullptr ? 0.0 : meter_.meter->joules();
  const nlohmann::ordered_json line = {{"step", newest_step(folder_ + "/metrics.jsonl")},
                                       {"joules", joules - last_joules_}};
  last_joules_ = joules;
  OutputFile file(path_, OutputFile::Mode::kAppend, ErrorCategory::kConfig);
  file.write(line.dump() + "\n");
  file.close();
}

std::vector<CurvePoint> read_energy(const std::string& folder, int num_ranks) {
  std::vector<std::map<std::int64_t, double>> ranks;
  std::set<std::int64_t> steps;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string path = energy_path(folder, rank);
    if (!std::filesystem::exists(path)) return {};
    ranks.push_back(read_rank(path));
    if (ranks.back().empty()) return {};
    for (const auto& [step, joules] : ranks.back()) steps.insert(step);
  }
  std::vector<CurvePoint> curve;
  for (const std::int64_t step : steps) {
    double sum = 0;
    for (const auto& rank : ranks) sum += joules_at(rank, step);
    curve.push_back({static_cast<double>(step), sum});
  }
  return curve;
}

}  // namespace packtrain
