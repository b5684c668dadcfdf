#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "framework/core/error.h"
#include "framework/data/attention_segment.h"
#include "training/verification/checks.h"

namespace packtrain {
namespace {

using Boundaries = std::vector<std::int32_t>;

// Each piece with its pads is a sequence; the dummy sequence is last.
Boundaries planned_boundaries(const PlannedRows& planned, std::int64_t num_rows) {
  Boundaries boundaries(planned.first_row.begin(), planned.first_row.end());
  boundaries.push_back(static_cast<std::int32_t>(planned.num_rows));
  if (num_rows > planned.num_rows) boundaries.push_back(static_cast<std::int32_t>(num_rows));
  return boundaries;
}

class BatchCheck {
 public:
  BatchCheck(const VerifiedModel& subject, const MicroBatch& pieces, const PackedBatch& batch,
             std::string where, CheckResult& result)
      : subject_(subject),
        pieces_(pieces),
        batch_(batch),
        planned_(planned_rows(pieces, subject.config.batch)),
        where_(std::move(where)),
        result_(result) {}

  void run() {
    const auto num_rows = std::ssize(batch_.input_ids);
    if (planned_.num_rows > num_rows) {
      return fail(fmt::format("has {} rows, the plan needs {}", num_rows, planned_.num_rows));
    }
    for (std::size_t p = 0; p < pieces_.size(); ++p) check_piece(p);
    const Boundaries wanted = planned_boundaries(planned_, num_rows);
    compare("cu_seqlens", Boundaries(batch_.cu_seqlens.begin(), batch_.cu_seqlens.end()), wanted);
    // The positions of a piece after a prefix continue it.
    if (!batch_.prefixes.empty()) return check_keys();
    try {
      compare("boundaries from position IDs", boundaries_from_position_ids(batch_.position_ids),
              wanted);
    } catch (const Error& error) {
      fail(error.message());
    }
    check_keys();
  }

 private:
  void fail(const std::string& text) { result_.fail(where_ + ": " + text); }

  std::string name_of(std::size_t piece) const {
    return piece < pieces_.size() ? describe(pieces_[piece], subject_.store) : "the dummy sequence";
  }

  void check_piece(std::size_t p) {
    ++result_.num_cases;
    const Piece& piece = pieces_[p];
    const auto first = static_cast<std::size_t>(planned_.first_row[p]);
    const auto length = static_cast<std::size_t>(piece.length);
    const auto tokens = subject_.store.input_ids(piece.example)
                            .subspan(static_cast<std::size_t>(piece.begin), length);
    if (!std::ranges::equal(tokens, batch_.input_ids.subspan(first, length))) {
      fail(fmt::format("rows {} to {} do not hold the tokens of {}", first, first + length - 1,
                       name_of(p)));
    }
    const std::int64_t num_prefix = planned_.segment(p).num_prefix();
    for (std::size_t t = 0; t < length; ++t) {
      const std::int32_t position = batch_.position_ids[first + t];
      if (position == num_prefix + static_cast<std::int64_t>(t)) continue;
      return fail(fmt::format("token {} of {} has position ID {}", t, name_of(p), position));
    }
  }

  // Reports the first boundary that differs from the plan.
  void compare(const char* what, const Boundaries& got, const Boundaries& wanted) {
    if (got == wanted) return;
    const auto [g, w] = std::ranges::mismatch(got, wanted);
    if (w == wanted.end()) {
      return fail(fmt::format("{}: a boundary at row {}, behind all planned ones", what, *g));
    }
    const auto sequence = static_cast<std::size_t>(w - wanted.begin());
    const std::string found = g == got.end() ? "none" : fmt::format("{}", *g);
    fail(fmt::format("{}: {} starts at row {}, found {}", what, name_of(sequence), *w, found));
  }

  // No row sees rows of another segment but those that its group shares.
  void check_keys() {
    std::int64_t longest = 0;
    const AttentionSegments segments = batch_.segments();
    for (std::int64_t s = 0; s < segments.size(); ++s) {
      const AttentionSegment segment = segments[s];
      longest = std::max(longest, segment.num_keys());
      check_prefix(static_cast<std::size_t>(s), segment);
    }
    if (longest != batch_.max_seqlen) {
      fail(fmt::format("max_seqlen is {}, the longest sequence has {} rows", batch_.max_seqlen,
                       longest));
    }
  }

  void check_prefix(std::size_t index, const AttentionSegment& segment) {
    const bool is_piece = index < pieces_.size();
    const AttentionSegment wanted = is_piece ? planned_.segment(index) : AttentionSegment{};
    if (std::ranges::equal(segment.prefix, wanted.prefix)) return;
    const auto rows = [](const AttentionSegment& of) {
      if (of.is_sequence()) return std::string("no rows");
      return fmt::format("rows {} to {}", of.prefix.front().begin, of.prefix.back().end - 1);
    };
    fail(fmt::format("{} sees {} of other pieces, {} in the plan", name_of(index), rows(segment),
                     rows(wanted)));
  }

  const VerifiedModel& subject_;
  const MicroBatch& pieces_;
  const PackedBatch& batch_;
  PlannedRows planned_;
  std::string where_;
  CheckResult& result_;
};

}  // namespace

CheckResult check_boundaries(const VerifiedModel& subject, const VerifiedStep& step) {
  CheckResult result{.name = "boundaries",
                     .claim = "boundaries from position IDs = planned",
                     .case_name = "sequences"};
  const auto rank = static_cast<std::size_t>(subject.rank);
  for (std::size_t m = 0; m < step.packed[rank].size(); ++m) {
    BatchCheck(subject, step.plan.ranks[rank][m], step.packed[rank][m],
               fmt::format("micro-batch {} of rank {}", m, rank), result)
        .run();
  }
  return result;
}

}  // namespace packtrain
