#include "framework/metrics/metrics_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

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

constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20U;

std::int64_t count_lines(std::string_view text) {
  return std::ranges::count(text, '\n');
}

// Truncates the file before the member that appends to it is constructed.
std::string cut_then_return(const std::string& path, std::int64_t first_step) {
  truncate_after_step(path, first_step);
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t first_step)
    : path_(path),
      file_(cut_then_return(path, first_step), OutputFile::Mode::kAppend,
            ErrorCategory::kInternal) {}

MetricsFile::~MetricsFile() {
  if (!waiting_.empty()) write_waiting();
  if (num_unwritten_lines() == 0) return;
  log_warning("{}: {} line(s) of this process are not in the file", path_, num_unwritten_lines());
}

void MetricsFile::append(std::string_view line) {
  std::string& text = waiting_.emplace_back(line);
  text += '\n';
  num_waiting_bytes_ += text.size();
  num_waiting_ += count_lines(text);
  write_waiting();
  if (num_waiting_bytes_ > kMaxWaitingBytes) lose_oldest();
}

void MetricsFile::write_waiting() {
  try {
    remove_incomplete_line();
    while (!waiting_.empty()) {
      complete_bytes_ = file_.size();
      file_.write(waiting_.front());
      complete_bytes_.reset();
      drop_front();
    }
    if (std::exchange(has_failed_, false)) log_info("{}: can be written again", path_);
  } catch (const Error& error) {
    if (!std::exchange(has_failed_, true)) {
      log_warning(
          "{}: training continues, and lines of this file wait in memory. Free space on its disk, "
          "or make it writable; the next line tries again",
          error.message());
    }
  }
  try {
    remove_incomplete_line();
  } catch (const Error&) {  // the next write tries again
  }
}

void MetricsFile::remove_incomplete_line() {
  if (!complete_bytes_) return;
  if (file_.size() > *complete_bytes_) file_.truncate(*complete_bytes_);
  complete_bytes_.reset();
}

void MetricsFile::drop_front() {
  num_waiting_bytes_ -= waiting_.front().size();
  num_waiting_ -= count_lines(waiting_.front());
  waiting_.pop_front();
}

void MetricsFile::lose_oldest() {
  while (num_waiting_bytes_ > kMaxWaitingBytes) {
    num_lost_ += count_lines(waiting_.front());
    drop_front();
  }
}

}  // namespace packtrain
