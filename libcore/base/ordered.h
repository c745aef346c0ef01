// Processes items on several threads and consumes their results in order, in bounded memory. The outcome is the same
// for any number of threads. A single thread runs everything on the calling thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"

namespace mtl {

/// Weighs every item as 0, so that run_ordered() has no budget.
struct NoWeight {
  std::size_t operator()(const auto&) const { return 0; }
};

/// State shared by run_ordered()'s threads.
template <class Result, class Produce, class Weigh>
class OrderedWork {
 public:
  OrderedWork(std::size_t max_items, Produce& produce, Weigh& weigh, std::size_t budget)
      : max_items_(max_items), produce_(produce), weigh_(weigh), budget_(budget) {}

  /// Processes items until none are left or stop() is called.
  template <class Work>
  void run_worker(Work& work) {
    while (true) {
      std::unique_lock source_lock(source_mutex_);
      const std::size_t index = next_item_;
      if (!wait_for_room(index)) return;
      Outcome outcome;
      try {
        auto item = produce_();
        if (!item) return end_at(index);
        ++next_item_;
        outcome.weight = weigh_(*item);
        add_weight(outcome.weight);
        source_lock.unlock();
        outcome.result = work(*item);
      } catch (...) {
        outcome.error = std::current_exception();
      }
      // The lock is still held only if produce() or weigh() threw; then we request no more items.
      if (source_lock.owns_lock()) end_at(index + 1);
      std::lock_guard lock(mutex_);
      outcomes_.emplace(index, std::move(outcome));
      changed_.notify_all();
    }
  }

  template <class Consume>
  void consume_all(Consume& consume) {
    while (true) {
      Outcome outcome;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return outcomes_.count(next_result_) > 0 || next_result_ >= total_; });
        if (outcomes_.count(next_result_) == 0) return;
        outcome = std::move(outcomes_.extract(next_result_).mapped());
        ++next_result_;
        changed_.notify_all();
      }
      if (outcome.error) std::rethrow_exception(outcome.error);
      consume(*outcome.result);
      outcome.result.reset();
      std::lock_guard lock(mutex_);
      weight_in_flight_ -= outcome.weight;
      changed_.notify_all();
    }
  }

  void stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  struct Outcome {
    std::optional<Result> result;
    std::exception_ptr error;
    std::size_t weight = 0;
  };

  /// Waits until item `index` may be requested. Returns false if no more items are needed.
  bool wait_for_room(std::size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (index < next_result_ + max_items_ && weight_in_flight_ < budget_) || stopped_; });
    return !stopped_ && index < total_;
  }
  void end_at(std::size_t total) {
    std::lock_guard lock(mutex_);
    total_ = total;
    changed_.notify_all();
  }
  void add_weight(std::size_t weight) {
    std::lock_guard lock(mutex_);
    weight_in_flight_ += weight;
  }

  const std::size_t max_items_;
  Produce& produce_;
  Weigh& weigh_;
  const std::size_t budget_;
  std::mutex source_mutex_;    // held while requesting an item; guards next_item_
  std::size_t next_item_ = 0;  // index of the next item to request
  std::mutex mutex_;           // guards the members below
  std::condition_variable changed_;
  std::map<std::size_t, Outcome> outcomes_;
  std::size_t next_result_ = 0, total_ = ~std::size_t{0}, weight_in_flight_ = 0;
  bool stopped_ = false;
};

/// Processes all items on `threads` threads.
///
/// produce() returns the next item, or nullopt at the end. Calls to it never overlap. make_worker() is called once per
/// thread, on the calling thread, and returns a function that maps an item to its result. consume(result) runs on the
/// calling thread.
///
/// At most 3 items per thread, and the one being consumed, are in flight. While their sum of weigh(item) is at least
/// `budget`, no new item is requested. A single thread has one item in flight, and does not call weigh().
///
/// If produce(), weigh() or a worker throws for an item, the results before that item are consumed first, then the
/// exception is rethrown. Throws Error(usage) unless `threads` is from 1 to 1024.
template <class Result, class Produce, class MakeWorker, class Consume, class Weigh = NoWeight>
void run_ordered(int threads, Produce produce, MakeWorker make_worker, Consume consume, Weigh weigh = {},
                 std::size_t budget = 1) {
  if (threads < 1 || threads > 1024) fail(Exit::usage, "cannot run ", threads, " threads; use 1 to 1024");
  if (threads == 1) {
    auto work = make_worker();
    while (auto item = produce()) consume(work(*item));
    return;
  }
  using Shared = OrderedWork<Result, Produce, Weigh>;
  Shared shared(3 * threads, produce, weigh, budget);
  std::vector<decltype(make_worker())> works;
  for (int i = 0; i < threads; ++i) works.push_back(make_worker());
  std::vector<std::jthread> workers;
  struct Stop {
    Shared& shared;
    ~Stop() { shared.stop(); }
  };
  Stop stop{shared};  // declared after `workers`, so that stop() runs before they are joined
  for (auto& work : works) workers.emplace_back([&] { shared.run_worker(work); });
  shared.consume_all(consume);
}

}  // namespace mtl
