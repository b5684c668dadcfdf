// The groups of a store as the units of a plan. A group is never cut, and all of it is in one
// micro-batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Thread-safe. Takes 4 bytes a group.
class GroupUnits {
 public:
  // `store` has groups and must outlive it. `share_prefixes`: the tokens that all examples of a
  // group begin with are computed once. Takes the rows that the store has
  // (ExampleGroups::kept_rows).
  GroupUnits(const TokenStore& store, bool share_prefixes);
  GroupUnits(const GroupUnits&) = delete;
  GroupUnits& operator=(const GroupUnits&) = delete;

  std::size_t size() const { return known_rows_.size(); }
  const TokenStore& store() const { return store_; }
  bool shares_prefixes() const { return share_prefixes_; }
  // [groups] Rows that are computed: the shared prefix once, and the rest of each example. The
  // first question for a group compares its tokens. Throws Error(kData) above 2^31 - 1.
  ExampleCounts lengths() const { return rows_; }
  ExampleCounts num_loss_tokens() const { return labels_; }  // [groups] of all examples

  ExampleGroup group(std::int64_t number) const { return store_.groups()->group(number); }
  // The tokens of its examples: at least as many as it has rows. Compares no tokens.
  std::int64_t num_stored_tokens(const ExampleGroup& group) const;
  std::int32_t longest_length(const ExampleGroup& group) const;  // of its examples
  // Number of tokens that are computed once: all that the examples share but the last one. The row
  // of that one predicts the first token of each answer, so every example has its own. Of a
  // conversation they are those of its last turn that an earlier one shares.
  std::int32_t num_prefix_tokens(std::int64_t number) const;
  // Compares the tokens of all groups, with several threads. Plans that need the rows of all of
  // them call it first.
  void find_prefixes() const { find_prefixes(0, size()); }
  void find_prefixes(std::size_t begin, std::size_t end) const;  // of a range of groups

  // Appends the pieces of a group: the shared prefix, if any, and the rest of each example.
  void append_pieces(std::int64_t number, std::vector<Piece>& pieces) const;
  // "group 3 (examples 6 to 7)"
  std::string describe(std::int64_t number) const;

 private:
  bool are_turns() const;
  // [turns of the group] The tokens of each that the shared prefix has.
  std::vector<std::int32_t> prefixes_of_turns(const ExampleGroup& group) const;
  std::int64_t num_saved_rows(const ExampleGroup& group) const;

  template <auto CountOf>
  class Counts final : public CountSource {
   public:
    explicit Counts(const GroupUnits& units) : units_(units) {}
    std::size_t size() const override { return units_.size(); }
    std::int32_t count(std::size_t unit) const override { return (units_.*CountOf)(unit); }
    void prefetch(std::size_t unit) const override { units_.prefetch(unit); }

   private:
    const GroupUnits& units_;
  };

  std::int32_t num_rows(std::size_t unit) const;
  std::int32_t num_labels(std::size_t unit) const;
  void prefetch(std::size_t unit) const;

  const TokenStore& store_;
  bool share_prefixes_;
  mutable std::vector<std::atomic<std::int32_t>> known_rows_;  // [groups] -1: not known yet
  Counts<&GroupUnits::num_rows> rows_{*this};
  Counts<&GroupUnits::num_labels> labels_{*this};
};

}  // namespace packtrain
