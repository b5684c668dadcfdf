#include "framework/metrics/metrics_file.h"

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>

#include "framework/core/logging.h"

namespace packtrain {
namespace {

using Keeps = std::function<bool(const nlohmann::json& line, std::int64_t step)>;

bool keeps_line(std::string_view line, const Keeps& keeps) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() &&
         keeps(object, step->get<std::int64_t>());
}

// Returns the number of removed lines. An incomplete last line is always removed.
std::int64_t cut_lines(const std::string& path, const Keeps& keeps) {
  std::error_code unreadable;  // opening the file will report it
  if (!std::filesystem::exists(path, unreadable)) return 0;
  const std::string text = read_text(path, ErrorCategory::kInternal);
  std::string kept;
  std::int64_t num_cut = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const bool is_torn = newline == std::string::npos;
    const std::size_t end = is_torn ? text.size() : newline + 1;
    const std::string_view line(text.data() + begin, end - begin);
    if (!is_torn && keeps_line(line, keeps)) {
      kept += line;
    } else {
      ++num_cut;
    }
    begin = end;
  }
  if (num_cut > 0) write_text_atomically(path, kept, ErrorCategory::kInternal);
  return num_cut;
}

}  // namespace

void truncate_after_step(const std::string& path, std::int64_t last_step) {
  const auto num_cut = cut_lines(
      path, [&](const nlohmann::json& /*line*/, std::int64_t step) { return step <= last_step; });
  if (num_cut == 0) return;
  log_info("{}: cut {} line(s) that an earlier process wrote after step {}", path, num_cut,
           last_step);
}

void cut_evaluation_of(const std::string& path, std::int64_t step) {
  cut_lines(path, [&](const nlohmann::json& line, std::int64_t of_step) {
    return of_step != step || !line.contains("validation_loss");
  });
}

namespace {

// Truncates the file before the member that appends to it is constructed.
std::string cut_then_return(const std::string& path, std::int64_t first_step) {
  truncate_after_step(path, first_step);
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t first_step)
    : file_(cut_then_return(path, first_step), OutputFile::Mode::kAppend,
            ErrorCategory::kInternal) {}

void MetricsFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  file_.write(text);
}

}  // namespace packtrain
