#include "parallel/communicators/tcp/incoming_calls.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace packtrain {
namespace {

using std::chrono::milliseconds;

constexpr auto kPause = milliseconds(100);  // after an accept that failed

}  // namespace

milliseconds IncomingCalls::longest_wait(milliseconds longest) const {
  const Clock::time_point now = Clock::now();
  Clock::time_point end = now + longest;
  if (accepts_from_ > now) end = std::min(end, accepts_from_);
  for (const Caller& caller : callers_) end = std::min(end, caller.deadline);
  return std::chrono::ceil<milliseconds>(std::max(end - now, Clock::duration::zero()));
}

std::vector<IncomingCall> IncomingCalls::wait(milliseconds longest) {
  const int listening = Clock::now() < accepts_from_ ? -1 : listening_.descriptor();
  std::vector<pollfd> entries = {{listening, POLLIN, 0}};
  for (const Caller& caller : callers_) entries.push_back({caller.socket.descriptor(), POLLIN, 0});
  const milliseconds limit = longest_wait(longest);
  if (poll(entries.data(), entries.size(), static_cast<int>(limit.count())) < 0) return {};
  if (entries.front().revents != 0) accept_caller();
  return take_complete();
}

void IncomingCalls::accept_caller() {
  std::optional<Socket> socket = accept_from(listening_, milliseconds(0));
  if (socket) {
    callers_.push_back({std::move(*socket), {}, Clock::now() + patience_});
  } else {
    accepts_from_ = Clock::now() + kPause;  // for example out of file descriptors
  }
}

std::vector<IncomingCall> IncomingCalls::take_complete() {
  std::vector<IncomingCall> calls;
  std::vector<Caller> waiting;
  for (Caller& caller : callers_) {
    const TextReceiver::State state = caller.receiver.read(caller.socket);
    if (state == TextReceiver::State::kComplete) {
      calls.push_back({std::move(caller.socket), caller.receiver.text()});
    } else if (state == TextReceiver::State::kIncomplete && Clock::now() < caller.deadline) {
      waiting.push_back(std::move(caller));
    }
  }
  callers_ = std::move(waiting);
  return calls;
}

}  // namespace packtrain
