#include "training/guards/file_thread.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace packtrain {
namespace {

constexpr std::chrono::seconds kPatience{2};

}  // namespace

struct FileThread::State {
  std::function<void()> work;
  std::function<void()> last;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::int64_t num_asked = 0;
  std::int64_t num_answered = 0;
  bool over = false;
  bool ended = false;
};

FileThread::FileThread(std::function<void()> work, std::function<void()> last,
                       std::chrono::milliseconds interval)
    : state_(std::make_shared<State>()) {
  state_->work = std::move(work);
  state_->last = std::move(last);
  std::thread([state = state_, interval] { run(*state, interval); }).detach();
}

void FileThread::run(State& state, std::chrono::milliseconds interval) {
  std::unique_lock lock(state.mutex);
  while (!state.over) {
    const std::int64_t asked = state.num_asked;
    lock.unlock();
    state.work();
    lock.lock();
    state.num_answered = asked;
    state.done.notify_all();
    state.wake.wait_for(lock, interval,
                        [&] { return state.over || state.num_asked > state.num_answered; });
  }
  lock.unlock();
  state.last();
  lock.lock();
  state.ended = true;
  state.done.notify_all();
}

bool FileThread::ask(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  const std::int64_t number = ++state_->num_asked;
  state_->wake.notify_one();
  return state_->done.wait_for(lock, limit, [&] { return state_->num_answered >= number; });
}

FileThread::~FileThread() {
  std::unique_lock lock(state_->mutex);
  state_->over = true;
  state_->wake.notify_one();
  state_->done.wait_for(lock, kPatience, [this] { return state_->ended; });
}

}  // namespace packtrain
