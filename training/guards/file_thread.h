// Does work on files in its own thread, because files of a shared file system may hang for ever. No
// other thread waits for it longer than a short limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace packtrain {

class FileThread {
 public:
  // Does `work` immediately and then every `interval`, and `last` at the end. Both must own what
  // they use: if the files hang, the thread and its objects are abandoned.
  FileThread(std::function<void()> work, std::function<void()> last,
             std::chrono::milliseconds interval);
  // Waits at most two seconds for the running work and `last`.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  // Does the work once more from its start. True when it ended within `limit`.
  bool ask(std::chrono::milliseconds limit);

 private:
  struct State;
  static void run(State& state, std::chrono::milliseconds interval);

  std::shared_ptr<State> state_;
};

}  // namespace packtrain
