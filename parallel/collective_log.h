// What this process asked its communicators for most recently: for the report of a hang, which may
// not touch the communicators themselves. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/support/data_type.h"

namespace packtrain {

// A collective, from the call to its return. On NCCL that is the time in which it is queued, on the
// CPU the collective itself.
class CollectiveScope {
 public:
  // `operation` must outlive the process: a literal.
  CollectiveScope(const char* operation, std::size_t count, DataType type);
  ~CollectiveScope();
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  std::uint64_t number_;
};

// Says what the collectives that this thread calls are for, until it goes: " for NAME".
class CollectiveLabel {
 public:
  explicit CollectiveLabel(const std::string& name);
  ~CollectiveLabel();
  CollectiveLabel(const CollectiveLabel&) = delete;
  CollectiveLabel& operator=(const CollectiveLabel&) = delete;
};
const std::string& collective_label();  // empty without one

std::uint64_t num_collectives_begun();
// Of at most the 8 latest, the newest last: "412: all_gather of 4096 x 2 bytes for
// layers.3, under way".
std::vector<std::string> latest_collectives();

}  // namespace packtrain
