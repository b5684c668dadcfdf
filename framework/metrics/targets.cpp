#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/metrics/metrics.h"
#include "framework/support/error.h"
#include "framework/support/file.h"

namespace packtrain {
namespace {

// An address that means "every interface" is no place to send a scraper to: the host's name is.
std::string reachable(const std::string& endpoint, const std::string& host) {
  for (const std::string_view wildcard : {"0.0.0.0:", "[::]:"}) {
    if (endpoint.starts_with(wildcard)) return host + ":" + endpoint.substr(wildcard.size());
  }
  return endpoint;
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
  const auto path = std::filesystem::path(run_folder) / "metrics-targets.json";
  write_text_atomically(path.string(), text, ErrorCategory::kInternal);
}

}  // namespace packtrain
