// Handles requests to stop: SIGUSR1, SIGTERM, SIGINT and SIGHUP ask for a checkpoint at the end of
// the step. A terminal that is closed sends SIGHUP. It stays ignored where it was, as under nohup.
#pragma once

#include <cstddef>
#include <string_view>

namespace packtrain {

// Texts that the handlers write to standard error, of at most kMaxNoticeBytes; more is cut.
// `first`: after SIGINT, before the run saves. `second`: before a repeated signal ends the
// process. One thread at a time may call it.
inline constexpr std::size_t kMaxNoticeBytes = 1024;
void set_stop_notice(std::string_view first, std::string_view second);

// While the object exists, these signals only set a flag. A SIGTERM or SIGINT after any of them has
// its default effect and ends the process. SIGUSR1 and SIGHUP may be repeated. At most one object
// exists.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace packtrain
