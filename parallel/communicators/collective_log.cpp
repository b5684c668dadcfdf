#include "parallel/communicators/collective_log.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

namespace packtrain {
namespace {

constexpr std::size_t kNumKept = 8;

struct Entry {
  std::uint64_t number = 0;  // from 1; 0: none
  const char* operation = "";
  std::size_t count = 0;
  DataType type = DataType::kUInt8;
  bool returned = false;
  std::string label = {};
};

thread_local std::string label_of_thread;

struct Log {
  std::mutex mutex;
  std::uint64_t num_begun = 0;
  std::array<Entry, kNumKept> entries;

  Entry& entry(std::uint64_t number) { return entries.at(number % kNumKept); }
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

CollectiveScope::CollectiveScope(const char* operation, std::size_t count, DataType type) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  number_ = ++log.num_begun;
  log.entry(number_) = {number_, operation, count, type, false, label_of_thread};
}

CollectiveScope::~CollectiveScope() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  Entry& entry = log.entry(number_);
  if (entry.number == number_) entry.returned = true;
}

CollectiveLabel::CollectiveLabel(const std::string& name) {
  label_of_thread = " for " + name;
}

CollectiveLabel::~CollectiveLabel() {
  label_of_thread.clear();
}

const std::string& collective_label() {
  return label_of_thread;
}

std::uint64_t num_collectives_begun() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  return log.num_begun;
}

std::vector<std::string> latest_collectives() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  std::vector<std::string> lines;
  for (std::uint64_t i = 0; i < kNumKept; ++i) {
    if (log.num_begun + i < kNumKept) continue;
    const Entry& entry = log.entry(log.num_begun + i + 1 - kNumKept);
    if (entry.number == 0) continue;
    lines.push_back(fmt::format("{}: {} of {} x {} bytes{}{}", entry.number, entry.operation,
                                entry.count, size_of(entry.type), entry.label,
                                entry.returned ? "" : ", under way"));
  }
  return lines;
}

}  // namespace packtrain
