#include "framework/checkpoint/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "framework/support/error.h"

namespace packtrain {
namespace {

// First byte of a report.
constexpr char kDone = '+';
constexpr char kFailed = '-';

std::string report_of(const std::function<std::string()>& work) {
  try {
    return kDone + work();
  } catch (const Error& error) {
    return kFailed + error.message();
  } catch (const std::exception& error) {  // out of memory, a tensor library's fault
    return kFailed + std::string(error.what());
  }
}

}  // namespace

std::vector<std::string> all_gather_texts(const std::string& text, Communicator& control) {
  const auto num_ranks = static_cast<std::size_t>(control.size());
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(num_ranks);
  control.all_gather(&length, lengths.data(), 1, DataType::kInt64, nullptr);
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::string> texts(num_ranks);
  if (longest == 0) return texts;
  std::string padded = text;
  padded.resize(longest);
  std::vector<char> all(num_ranks * longest);
  control.all_gather(padded.data(), all.data(), longest, DataType::kUInt8, nullptr);
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    texts[rank].assign(all.data() + rank * longest, static_cast<std::size_t>(lengths[rank]));
  }
  return texts;
}

std::vector<std::string> agree(const std::string& what, Communicator& control,
                               const std::function<std::string()>& work) {
  std::vector<std::string> reports = all_gather_texts(report_of(work), control);
  std::string failures;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].front() == kFailed) {
      failures +=
          fmt::format("{}rank {}: {}", failures.empty() ? "" : "; ", rank, reports[rank].substr(1));
    }
    reports[rank].erase(0, 1);
  }
  if (!failures.empty()) {
    throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", what, failures),
                "Older checkpoints are untouched.");
  }
  return reports;
}

}  // namespace packtrain
