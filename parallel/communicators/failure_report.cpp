#include "parallel/communicators/failure_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace packtrain {
namespace {

void print(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(nullptr);
}

}  // namespace

std::string encode(const ReportOfRank& report) {
  return fmt::format("{}\n{}\n{}", report.report.exit_code, report.host, report.report.text);
}

ReportOfRank decode_report(const std::string& message) {
  const std::size_t first = message.find('\n');
  const std::size_t second = message.find('\n', first + 1);
  return {{static_cast<int>(std::strtol(message.c_str(), nullptr, 10)), message.substr(second + 1)},
          message.substr(first + 1, second - first - 1)};
}

void print_with_rank(int rank, const ReportOfRank& report) {
  print(fmt::format("[rank {} on {}] {}", rank, report.host, report.report.text));
}

int print_reports(const std::map<int, ReportOfRank>& reports, int size) {
  const FailureReport& first = reports.begin()->second.report;
  bool equal = static_cast<int>(reports.size()) == size;
  for (const auto& [rank, received] : reports) equal = equal && received.report == first;
  if (equal) {
    print(first.text);
    return first.exit_code;
  }
  for (const auto& [rank, received] : reports) print_with_rank(rank, received);
  return first.exit_code;
}

}  // namespace packtrain
