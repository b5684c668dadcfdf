#include "training/guards/stop_notice.h"

#include <fmt/format.h>

#include "framework/core/terminal.h"
#include "training/guards/stop_signal.h"

namespace packtrain {

void note_newest_checkpoint(const std::string& folder) {
  const char* clears = terminal_width() > 0 ? kClearLine : "";
  const std::string kept = folder.empty()
                               ? "nothing was saved yet, and the same command begins again"
                               : fmt::format(
                                     "{} is kept, and the same command continues from there; later "
                                     "steps are lost",
                                     folder);
  set_stop_notice(
      fmt::format("{}stopping: this step is finished and saved first. A second Ctrl-C ends the run "
                  "without that: {}\n",
                  clears, kept),
      fmt::format("{}ended before it was saved: {}\n", clears, kept));
}

}  // namespace packtrain
