// A few threads that share the pieces of one job; they spin for a moment between jobs, then sleep.
//
// The caller takes pieces itself and never waits for a thread that holds none: a helper that the system has put aside for a
// busy neighbour slows a job by one piece at most.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tierwright {

class Pool {
 public:
  using Piece = void (*)(void* job, int64_t piece);

  // The process's pool; it is never destroyed, since its threads may outlive whatever runs at exit.
  static Pool& instance();

  // Threads that take part, the caller among them. Only between jobs.
  void resize(int threads);

  // How many take part.
  int64_t threads() const { return threads_.load(); }

  // Runs all pieces, on several threads where nobody else uses them now.
  void run(int64_t pieces, Piece piece, void* job);

 private:
  void help(uint32_t seen);
  void take();
  void sleep_until_new(uint32_t seen);

  std::mutex in_use_;
  std::vector<std::thread> helpers_;
  std::atomic<int64_t> threads_{1};
  std::atomic<uint32_t> epoch_{0};    // counts jobs; sleepers wait on it
  std::atomic<bool> open_{false};     // whether the job below may be joined
  std::atomic<int> inside_{0};        // helpers that may be looking at the job
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<int64_t> next_{0};
  int64_t pieces_ = 0;
  Piece piece_ = nullptr;
  void* job_ = nullptr;
};

}  // namespace tierwright
