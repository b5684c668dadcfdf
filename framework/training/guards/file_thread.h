// Work on files that may hang for ever, as those of a shared file system do: on a thread that
// nobody waits for longer than a moment.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace packtrain {

class FileThread {
 public:
  // Does `work` at once and then every `interval`, and `last` at the end. Both must own what they
  // use: where the files hang, the thread is left behind with them.
  FileThread(std::function<void()> work, std::function<void()> last,
             std::chrono::milliseconds interval);
  // Waits two seconds at most for the work under way and the last.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  // Has the work done once more, from its beginning; whether it came to an end within `limit`.
  bool ask(std::chrono::milliseconds limit);

 private:
  struct State;
  static void run(State& state, std::chrono::milliseconds interval);

  std::shared_ptr<State> state_;
};

}  // namespace packtrain
