// The groups of stores that were joined, numbered over all of them.
#pragma once

#include <vector>

#include "framework/data/example_groups.h"
#include "framework/data/joined_part.h"

namespace packtrain {

class JoinedGroups final : public ExampleGroups {
 public:
  // The parts are of one joined store and must outlive it. All have groups, or none is asked for.
  explicit JoinedGroups(const std::vector<JoinedPart>& parts) : parts_(parts) {}

  ExampleGroup group(std::int64_t number) const override;
  std::int64_t group_of(std::int64_t example) const override;
  GroupRole role(std::int64_t example) const override;

 private:
  void check(std::int64_t number, std::int64_t count) const;

  const std::vector<JoinedPart>& parts_;
};

}  // namespace packtrain
