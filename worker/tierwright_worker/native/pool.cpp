// See pool.h.
#include "pool.h"

#include <system_error>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <sched.h>

namespace tierwright {

namespace {

constexpr int kSpins = 1500;  // some tens of microseconds: longer than what lies between two jobs of a step

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void wait_on(std::atomic<uint32_t>& word, uint32_t seen) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  if (word.load() == seen) sched_yield();
#endif
}

void wake_all(std::atomic<uint32_t>& word) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1 << 20, nullptr, nullptr, 0);
#endif
}

}  // namespace

Pool& Pool::instance() {
  static Pool* pool = new Pool;
  return *pool;
}

void Pool::resize(int threads) {
  std::lock_guard<std::mutex> guard(in_use_);
  stopping_ = true;
  epoch_.fetch_add(1);
  wake_all(epoch_);
  for (std::thread& helper : helpers_) helper.join();
  helpers_.clear();
  stopping_ = false;
  const uint32_t seen = epoch_.load();
  try {
    for (int index = 1; index < threads; ++index) helpers_.emplace_back([this, seen] { help(seen); });
  } catch (const std::system_error&) {
    // The system gives no more threads: those that are there do the work.
  }
  threads_.store(static_cast<int64_t>(helpers_.size()) + 1);
}

void Pool::run(int64_t pieces, Piece piece, void* job) {
  std::unique_lock<std::mutex> guard(in_use_, std::try_to_lock);
  if (pieces < 2 || !guard.owns_lock() || helpers_.empty()) {
    for (int64_t index = 0; index < pieces; ++index) piece(job, index);
    return;
  }
  pieces_ = pieces;
  piece_ = piece;
  job_ = job;
  next_.store(0);
  open_.store(true);
  epoch_.fetch_add(1);
  if (sleeping_.load() > 0) wake_all(epoch_);
  take();
  // Whoever came in before the door was shut is waited for; whoever comes later finds it shut.
  open_.store(false);
  for (int spins = 0; inside_.load() > 0; ++spins) spins < kSpins ? pause() : static_cast<void>(sched_yield());
}

void Pool::take() {
  for (int64_t index = next_.fetch_add(1); index < pieces_; index = next_.fetch_add(1)) piece_(job_, index);
}

void Pool::help(uint32_t seen) {
  while (true) {
    sleep_until_new(seen);
    if (stopping_.load()) return;
    seen = epoch_.load();
    inside_.fetch_add(1);
    if (open_.load()) take();
    inside_.fetch_sub(1);
  }
}

void Pool::sleep_until_new(uint32_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (epoch_.load() != seen) return;
    pause();
  }
  sleeping_.fetch_add(1);
  while (epoch_.load() == seen) wait_on(epoch_, seen);
  sleeping_.fetch_sub(1);
}

}  // namespace tierwright
