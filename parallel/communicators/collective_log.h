// The latest collectives of this process, for the report of a hang. Such a report must not use the
// communicators themselves. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/data_type.h"

namespace packtrain {

// A collective, from the call to its return. With NCCL the call only enqueues it; on the CPU the
// call runs it.
class CollectiveScope {
 public:
  // `operation` must be a string literal: it must live until the process ends.
  CollectiveScope(const char* operation, std::size_t count, DataType type);
  ~CollectiveScope();
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  std::uint64_t number_;
};

// Labels the collectives that this thread calls during the object's lifetime: " for NAME".
class CollectiveLabel {
 public:
  explicit CollectiveLabel(const std::string& name);
  ~CollectiveLabel();
  CollectiveLabel(const CollectiveLabel&) = delete;
  CollectiveLabel& operator=(const CollectiveLabel&) = delete;
};
const std::string& collective_label();  // empty without one

std::uint64_t num_collectives_begun();
// The latest collectives, at most 8, the newest last, as in
// `412: all_gather of 4096 x 2 bytes for layers.3, under way`.
std::vector<std::string> latest_collectives();

}  // namespace packtrain
