// Items worked on by several threads, their results taken in the order of the items: the same outcome for any number
// of threads, in bounded memory.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace mtl {

struct Weightless {
  std::size_t operator()(const auto&) const { return 0; }
};

/// `produce()` gives an optional item and is never called by two threads at once; `make_worker()` is called once for
/// each thread and gives the function from an item to its result; `consume(result)` runs in the calling thread.
/// At most 3 items a thread are under way, and no new one is asked for while those under way weigh `budget` or more.
/// An exception of any of them ends the work, in the order of the items: what comes before the item that failed is
/// consumed.
template <class Result, class Produce, class MakeWorker, class Consume, class Weigh = Weightless>
void run_ordered(int threads, Produce produce, MakeWorker make_worker, Consume consume, Weigh weigh = {},
                 std::size_t budget = 1) {
  struct Outcome {
    std::optional<Result> result;
    std::exception_ptr error;
    std::size_t weight = 0;
  };
  std::mutex source_mutex, mutex;
  std::condition_variable changed;
  std::map<std::size_t, Outcome> outcomes;
  std::size_t next_item = 0, next_result = 0, total = ~std::size_t{0}, under_way = 0;
  bool stopped = false;
  const auto limit = static_cast<std::size_t>(3 * threads);

  auto run_worker = [&](auto& work) {
    while (true) {
      std::unique_lock source_lock(source_mutex);
      std::size_t index = next_item;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return (index < next_result + limit && under_way < budget) || stopped; });
        if (stopped || index >= total) return;
      }
      Outcome outcome;
      try {
        auto item = produce();
        if (!item) {
          std::lock_guard lock(mutex);
          total = index;
          changed.notify_all();
          return;
        }
        ++next_item;
        outcome.weight = weigh(*item);
        {
          std::lock_guard lock(mutex);
          under_way += outcome.weight;
        }
        source_lock.unlock();
        outcome.result = work(*item);
      } catch (...) {
        outcome.error = std::current_exception();
      }
      std::lock_guard lock(mutex);
      // After an error of the source, which still holds its lock, nothing more is to be asked of it.
      if (source_lock.owns_lock()) total = index + 1;
      outcomes.emplace(index, std::move(outcome));
      changed.notify_all();
    }
  };

  std::vector<decltype(make_worker())> works;
  for (int i = 0; i < threads; ++i) works.push_back(make_worker());
  std::vector<std::jthread> workers;
  struct Stop {
    std::mutex& mutex;
    std::condition_variable& changed;
    bool& stopped;
    ~Stop() {
      std::lock_guard lock(mutex);
      stopped = true;
      changed.notify_all();
    }
  };
  Stop stop{mutex, changed, stopped};  // declared after the threads, so that it acts before they are joined
  for (auto& work : works) workers.emplace_back([&] { run_worker(work); });
  while (true) {
    Outcome outcome;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return outcomes.count(next_result) > 0 || next_result >= total; });
      if (outcomes.count(next_result) == 0) return;
      outcome = std::move(outcomes.extract(next_result).mapped());
      ++next_result;
      changed.notify_all();
    }
    if (outcome.error) std::rethrow_exception(outcome.error);
    consume(*outcome.result);
    outcome.result.reset();
    std::lock_guard lock(mutex);
    under_way -= outcome.weight;
    changed.notify_all();
  }
}

}  // namespace mtl
