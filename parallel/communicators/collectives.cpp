#include "parallel/communicators/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace packtrain {
namespace {

// Limits the text, because thousands of ranks may fail for one reason.
constexpr int kMaxReasons = 8;

std::int64_t reduced(std::int64_t value, ReduceOp op, Communicator& control) {
  control.all_reduce(&value, 1, DataType::kInt64, op, nullptr);
  return value;
}

// "CATEGORY LENGTH_OF_MESSAGE\n", message, advice.
std::string text_of(const Error& error) {
  return fmt::format("{} {}\n{}{}", error.exit_code(), error.message().size(), error.message(),
                     error.advice());
}

Error error_from(const std::string& text) {
  char* end = nullptr;
  const auto category = static_cast<ErrorCategory>(std::strtol(text.c_str(), &end, 10));
  const std::size_t length = std::strtoull(end, &end, 10);
  const std::string_view texts = std::string_view(text).substr(end + 1 - text.c_str());
  return {category, std::string(texts.substr(0, length)), std::string(texts.substr(length))};
}

// The error that `work` threw, or nothing.
std::optional<Error> failure_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {  // out of memory, or an error of libtorch
    return Error(ErrorCategory::kInternal, error.what());
  }
}

std::string joined_reasons(const std::vector<std::string>& reasons) {
  std::string joined;
  int num_told = 0;
  int num_more = 0;
  for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    if (num_told == kMaxReasons) {
      ++num_more;
      continue;
    }
    ++num_told;
    joined += fmt::format("{}rank {}: {}", joined.empty() ? "" : "; ", rank, reasons[rank]);
  }
  return num_more == 0 ? joined : fmt::format("{}; and {} more ranks", joined, num_more);
}

// All ranks exchange lengths and pad to the longest. `exchange` fills its second argument on the
// ranks that receive.
template <typename Exchange>
std::vector<std::string> exchange_texts(const std::string& text, Communicator& control,
                                        bool is_told, Exchange&& exchange) {
  const auto num_ranks = static_cast<std::size_t>(control.size());
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(num_ranks);
  control.all_gather(&length, lengths.data(), 1, DataType::kInt64, nullptr);
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  std::vector<std::string> texts(num_ranks);
  if (longest == 0) return texts;
  std::string padded = text;
  padded.resize(longest);
  std::vector<char> all(is_told ? num_ranks * longest : 0);
  exchange(padded.data(), all.data(), longest);
  if (!is_told) return {};
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    texts[rank].assign(all.data() + rank * longest, static_cast<std::size_t>(lengths[rank]));
  }
  return texts;
}

}  // namespace

std::vector<std::string> all_gather_texts(const std::string& text, Communicator& control) {
  return exchange_texts(text, control, true,
                        [&](const void* send, void* receive, std::size_t count) {
                          control.all_gather(send, receive, count, DataType::kUInt8, nullptr);
                        });
}

std::vector<std::string> gather_texts(const std::string& text, int root, Communicator& control) {
  return exchange_texts(text, control, control.rank() == root,
                        [&](const void* send, void* receive, std::size_t count) {
                          control.gather(send, receive, count, DataType::kUInt8, root);
                        });
}

std::string broadcast_text(const std::string& text, int root, Communicator& control) {
  auto length = static_cast<std::int64_t>(text.size());
  control.broadcast(&length, sizeof length, root, nullptr);
  std::string told = text;
  told.resize(static_cast<std::size_t>(length));
  if (length > 0) control.broadcast(told.data(), told.size(), root, nullptr);
  return told;
}

bool any_rank(bool value, Communicator& control) {
  return reduced(value ? 1 : 0, ReduceOp::kMax, control) != 0;
}

void collective_try(const std::string& what, Communicator& control,
                    const std::function<void()>& work) {
  const std::optional<Error> failure = failure_of(work);
  if (!any_rank(failure.has_value(), control)) return;
  const auto reasons = all_gather_texts(failure ? failure->message() : "", control);
  const std::string advice = first_rank_error(failure, control)->error.advice();
  throw Error(
      ErrorCategory::kCheckpoint, fmt::format("{}: {}", what, joined_reasons(reasons)),
      fmt::format("{}{}Older checkpoints are as they were.", advice, advice.empty() ? "" : " "));
}

std::string run_on_first_rank(Communicator& control, const std::function<std::string()>& work) {
  std::string answer;
  std::optional<Error> failure;
  if (control.rank() == 0) failure = failure_of([&] { answer = work(); });
  // The first letter distinguishes an error (-) from an answer (+).
  const std::string told = broadcast_text(
      failure ? fmt::format("-{}", text_of(*failure)) : fmt::format("+{}", answer), 0, control);
  if (told.front() == '-') throw error_from(told.substr(1));
  return told.substr(1);
}

std::optional<RankError> first_rank_error(const std::optional<Error>& own, Communicator& control) {
  const auto rank =
      static_cast<int>(reduced(own ? control.rank() : control.size(), ReduceOp::kMin, control));
  if (rank == control.size()) return std::nullopt;
  return RankError{rank, error_from(broadcast_text(own ? text_of(*own) : "", rank, control))};
}

void throw_first_rank_error(const std::optional<Error>& own, Communicator& control) {
  const auto first = first_rank_error(own, control);
  if (!first) return;
  throw Error(first->error.category(), first->error.message(), first->error.advice());
}

}  // namespace packtrain
