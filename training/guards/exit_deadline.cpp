#include "training/guards/exit_deadline.h"

#include <unistd.h>

#include "framework/core/process.h"
#include "training/guards/fast_exit.h"

namespace packtrain {

void ExitDeadline::arm(const std::string& text, int exit_code) {
  deadline_.emplace(limit_, [text, exit_code] {
    print_unbuffered("error: " + text + "\nerror: giving up what it held hangs: ended at once\n");
    kill_children();
    ::_exit(exit_code);
  });
}

}  // namespace packtrain
