// Ranks as threads in one process, to test collective code without launching multiple processes.
//
// run_ranks(grid, [&](int rank, const ProcessGroups& groups) { ... });
//
// In a collective, ranks copy from each other's memory between two barriers. Reductions add in rank order. If a rank
// throws, ranks that wait for it throw too, and run_ranks rethrows the first exception.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/groups.h"
#include "comm/rank_sums.h"
#include "layout/ranks.h"

namespace mtl::test {

/// State shared by a group's members.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : slots(static_cast<std::size_t>(size)) {}

  /// Returns once every member has called it. Throws if the group is abandoned first.
  void barrier() {
    std::unique_lock lock(mutex_);
    check();
    std::int64_t round = round_;
    if (++arrived_ == slots.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || broken_; });
    if (round_ == round) check();
  }

  /// A message in the sender's memory, where it stays until the receiver takes it.
  struct Message {
    Tensor data;
    bool is_taken = false;
  };

  std::shared_ptr<Message> put(int from, int to, Channel channel, Tensor data) {
    std::lock_guard lock(mutex_);
    messages_[{from, to, channel}].push_back(std::make_shared<Message>(Message{data}));
    changed_.notify_all();
    return messages_[{from, to, channel}].back();
  }

  bool is_taken(const Message& message) {
    std::lock_guard lock(mutex_);
    return message.is_taken;
  }

  void wait_until_taken(const Message& message) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return message.is_taken; });
  }

  void take(int from, int to, Channel channel, Tensor out) {
    std::unique_lock lock(mutex_);
    std::deque<std::shared_ptr<Message>>& queue = messages_[{from, to, channel}];
    wait(lock, [&] { return !queue.empty(); });
    Message& message = *queue.front();
    require(message.data.bytes() == out.bytes(), "a message of ", message.data.bytes(), " bytes for ", out.bytes());
    if (out.bytes() > 0) std::memcpy(out.raw(), message.data.raw(), out.bytes());
    message.is_taken = true;
    queue.pop_front();
    changed_.notify_all();
  }

  /// Marks the group as broken after a member has failed. Waiting members then throw.
  void abandon() {
    std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

  std::vector<Tensor> slots;  // by member: operands of the current collective

 private:
  void check() const { require(!broken_, "another rank has failed"); }

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition is_true) {
    const bool has_changed = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return is_true() || broken_; });
    require(has_changed, "a rank has waited for a message for 20 s");
    if (!is_true()) check();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
  bool broken_ = false;
  std::map<std::tuple<int, int, Channel>, std::deque<std::shared_ptr<Message>>> messages_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->slots.size()); }

  std::shared_ptr<void> register_memory(const Tensor& memory) override {
    registered_.push_back(memory);
    return {};
  }
  /// The tensors in collectives so far, apart from single numbers, that were not in registered memory.
  int unregistered() const { return unregistered_; }

  /// The bytes that a transport which adds and gathers by parts has to send.
  Traffic take_traffic() override { return std::exchange(traffic_, {}); }

 private:
  class Sending final : public Work::Operation {
   public:
    Sending(std::shared_ptr<ThreadGroup> group, std::shared_ptr<ThreadGroup::Message> message)
        : group_(std::move(group)), message_(std::move(message)) {}
    bool done() override { return group_->is_taken(*message_); }
    void join() override { group_->wait_until_taken(*message_); }

   private:
    std::shared_ptr<ThreadGroup> group_;
    std::shared_ptr<ThreadGroup::Message> message_;
  };

  class Deferred final : public Work::Operation {
   public:
    explicit Deferred(std::function<void()> run) : run_(std::move(run)) {}
    bool done() override { return run_ == nullptr; }
    void join() override {
      if (run_ != nullptr) std::exchange(run_, nullptr)();
    }

   private:
    std::function<void()> run_;
  };

  Work start(Stream&, const Transfer& transfer) override {
    const auto& [kind, out, in, peer, channel] = transfer;
    switch (kind) {
      case OperationKind::all_reduce:
        return reduce(out);
      case OperationKind::all_gather:
        return gather(out, in);
      case OperationKind::reduce_scatter:
        return scatter(out, in);
      case OperationKind::broadcast:
        return publish(out, peer);
      case OperationKind::send:
        return put(out, peer, channel);
      default:
        return take(out, peer, channel);
    }
  }

  Work reduce(const Tensor& data) {
    std::vector<std::byte> result(data.bytes());
    if (data.numel() > 1) expect_registered({data});
    const double own_part = double(data.bytes()) / size();
    count(double(data.bytes()) - own_part + own_part * (size() - 1));  // the others' parts, then their sum
    collect(data, [&] { sum(result, 0); });
    copy_bytes(data.raw(), result.data(), result.size());
    return {};
  }

  /// Runs only when joined. A member that reads the result too early will see old values.
  Work gather(const Tensor& out, const Tensor& in) {
    expect_registered({out, in});
    count(double(in.bytes()) * (size() - 1));
    return Work(std::make_shared<Deferred>([this, out, in] {
      collect(in, [&] {
        for (int r = 0; r < size(); ++r) {
          require(slot(r).bytes() == in.bytes(), "ranks gather parts of different sizes");
          copy_bytes(out.flat(r * in.numel(), in.numel()).raw(), slot(r).raw(), in.bytes());
        }
      });
    }));
  }

  Work scatter(const Tensor& out, const Tensor& in) {
    std::vector<std::byte> result(out.bytes());
    expect_registered({out, in});
    count(double(in.bytes() - out.bytes()));
    collect(in, [&] { sum(result, rank_ * out.bytes()); });
    copy_bytes(out.raw(), result.data(), result.size());
    return {};
  }

  Work publish(const Tensor& data, int root) {
    count(rank_ == root ? double(data.bytes()) * (size() - 1) : 0);
    collect(data, [&] {
      require(slot(root).bytes() == data.bytes(), "ranks broadcast different sizes");
      copy_bytes(data.raw(), slot(root).raw(), data.bytes());
    });
    return {};
  }

  /// Ends when the receiver takes the message: no memory but the sender's holds it.
  Work put(const Tensor& data, int peer, Channel channel) {
    count(double(data.bytes()));
    return Work(std::make_shared<Sending>(group_, group_->put(rank_, peer, channel, data)));
  }

  /// Runs only when joined, like all_gather.
  Work take(const Tensor& data, int peer, Channel channel) {
    return Work(std::make_shared<Deferred>([this, data, peer, channel] { group_->take(peer, rank_, channel, data); }));
  }

  void expect_registered(const std::vector<Tensor>& operands) {
    const auto begin = [](const Tensor& tensor) { return static_cast<const std::byte*>(tensor.raw()); };
    for (const Tensor& operand : operands)
      unregistered_ += std::ranges::none_of(registered_, [&](const Tensor& memory) {
        return begin(memory) <= begin(operand) && begin(operand) + operand.bytes() <= begin(memory) + memory.bytes();
      });
  }

  void count(double bytes) {
    traffic_.bytes += bytes;
    ++traffic_.operations;
  }

  const Tensor& slot(int r) const { return group_->slots[static_cast<std::size_t>(r)]; }

  /// Publishes `own`. Then calls `read` between two barriers, while the slots contain all members' operands.
  template <class Read>
  void collect(const Tensor& own, const Read& read) {
    group_->slots[static_cast<std::size_t>(rank_)] = own;
    group_->barrier();
    read();
    group_->barrier();
  }

  /// Adds up all members' slots in rank order, starting at byte `first_byte`.
  void sum(std::vector<std::byte>& result, std::size_t first_byte) {
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < size(); ++r) inputs.push_back(static_cast<const std::byte*>(slot(r).raw()) + first_byte);
    sum_in_rank_order(slot(rank_).dtype(), result.data(), inputs, result.size());
  }

  static void copy_bytes(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  Traffic traffic_;
  std::vector<Tensor> registered_;
  int unregistered_ = 0;
};

/// The groups for every rank in a layout.
class ThreadGroups {
 public:
  explicit ThreadGroups(const Layout& layout) : layout_(layout) {}

  ProcessGroups of(int rank) {
    layout_.rank = rank;
    return {layout_, [&](const std::vector<int>& ranks, const std::string& name) {
              std::shared_ptr<ThreadGroup>& group = groups_[{name, ranks}];
              if (group == nullptr) group = std::make_shared<ThreadGroup>(static_cast<int>(ranks.size()));
              auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
              return std::make_shared<ThreadCommunicator>(group, static_cast<int>(place));
            }};
  }

  void abandon() {
    for (auto& [key, group] : groups_) group->abandon();
  }

 private:
  Layout layout_;
  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<ThreadGroup>> groups_;
};

/// Runs each rank of the layout in its own thread; rethrows the first exception.
inline void run_ranks(const Layout& layout, const std::function<void(int, const ProcessGroups&)>& body) {
  const int world = layout.grid.world();
  ThreadGroups groups(layout);
  std::vector<ProcessGroups> of_rank;
  for (int rank = 0; rank < world; ++rank) of_rank.push_back(groups.of(rank));
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, of_rank[static_cast<std::size_t>(rank)]);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
        groups.abandon();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}
inline void run_ranks(const RankGrid& grid, const std::function<void(int, const ProcessGroups&)>& body) {
  run_ranks(Layout{.grid = grid}, body);
}

}  // namespace mtl::test
