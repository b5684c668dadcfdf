#include "framework/config/sweep_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "framework/config/load.h"
#include "framework/core/hash.h"

namespace packtrain {
namespace {

constexpr std::size_t kMaxNameLength = 100;

}  // namespace

std::string sweep_name_part(const std::string& column, const std::string& value) {
  const bool speaks = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                      value != "true" && value != "false" && value != "null";
  std::string part =
      speaks ? value : fmt::format("{}={}", column.substr(column.rfind('.') + 1), value);
  for (char& c : part) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._=+").find(c) != std::string_view::npos;
    if (!plain) c = '-';
  }
  return part;
}

std::string sweep_run_name(std::span<const std::string> columns,
                           std::span<const std::string> values, const std::string& hash) {
  std::string name;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    if (k > 0) name += ',';
    name += sweep_name_part(columns[k], values[k]);
  }
  name.resize(std::min(name.size(), kMaxNameLength));
  return name + (name.empty() ? "" : "-") + hash.substr(0, kSweepHashDigits);
}

std::string hash_sweep_run(Config config, std::int64_t num_ranks) {
  config.run.output = "any";
  const std::string text = fmt::format("{}ranks: {}\n", dump_config(config), num_ranks);
  return hash_bytes(std::as_bytes(std::span(text)));
}

}  // namespace packtrain
