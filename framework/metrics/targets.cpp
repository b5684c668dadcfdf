#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "framework/core/logging.h"
#include "framework/metrics/metrics.h"

namespace packtrain {
namespace {

// An address of all interfaces cannot be scraped, so the host's name replaces it.
std::string reachable(const std::string& endpoint, const std::string& host) {
  for (const std::string_view wildcard : {"0.0.0.0:", "[::]:"}) {
    if (endpoint.starts_with(wildcard)) return host + ":" + endpoint.substr(wildcard.size());
  }
  return endpoint;
}

// The site's folder for targets of all runs, if it is set.
std::optional<std::string> shared_path(const std::string& run_folder, const std::string& run_name) {
  const char* folder = std::getenv("PACKTRAIN_TARGETS_FOLDER");
  if (folder == nullptr || *folder == 0) return std::nullopt;
  // Runs in two folders can have the same name, so the hash of the folder distinguishes them.
  const std::string place = std::filesystem::absolute(run_folder).lexically_normal().string();
  const std::string hash = hash_bytes(std::as_bytes(std::span(place))).substr(0, 8);
  return fmt::format("{}/{}-{}.json", folder, run_name, hash);
}

// A failure does not end a run.
void write_targets(const std::string& path, const std::string& text, std::string_view consequence) {
  try {
    write_text_atomically(path, text, ErrorCategory::kInternal);
  } catch (const Error& error) {
    log_warning("{}: {}; training continues", error.message(), consequence);
  }
}

std::string own_path(const std::string& run_folder) {
  return (std::filesystem::path(run_folder) / "metrics-targets.json").string();
}

}  // namespace

void write_metrics_targets(const std::string& run_folder, const std::string& run_name,
                           const std::vector<std::string>& endpoints,
                           const std::vector<std::string>& hosts) {
  if (endpoints.size() != hosts.size()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("write_metrics_targets: got {} endpoints and {} hosts, want one each "
                            "a rank",
                            endpoints.size(), hosts.size()));
  }
  auto groups = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < endpoints.size(); ++rank) {
    if (endpoints[rank].empty()) continue;
    groups.push_back({
        {"targets", {reachable(endpoints[rank], hosts[rank])}},
        {"labels", {{"run", run_name}, {"host", hosts[rank]}, {"rank", std::to_string(rank)}}},
    });
  }
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  const std::string text = groups.dump(2, ' ', /*ensure_ascii=*/false, replace) + "\n";
  write_targets(own_path(run_folder), text, "Prometheus will not find this run by its folder");
  if (const auto path = shared_path(run_folder, run_name)) {
    write_targets(*path, text, "Prometheus will not find this run by PACKTRAIN_TARGETS_FOLDER");
  }
}

void remove_metrics_targets(const std::string& run_folder, const std::string& run_name) {
  write_targets(own_path(run_folder), "[]\n", "Prometheus will ask for the ended run");
  std::error_code ignored;
  if (const auto path = shared_path(run_folder, run_name)) std::filesystem::remove(*path, ignored);
}

}  // namespace packtrain
