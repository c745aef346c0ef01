#include "comm/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/lanes.h"
#include "comm/rank_sums.h"
#include "comm/staging.h"

namespace mtl {

namespace {

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

/// Splits `whole` into `size` parts whose lengths differ by at most one element. Returns the byte offset where part
/// `part` starts, or the end of `whole` if part == size.
std::size_t part_begin(const Tensor& whole, int part, int size) {
  std::size_t count = whole.numel(), parts = size;
  std::size_t index = part;
  return (index * (count / parts) + std::min(index, count % parts)) * size_of(whole.dtype());
}

/// Calls `function` for every other rank in the group. Starts with the next rank, so that the ranks do not all contact
/// the same peer first.
template <class Function>
void for_others(const GroupLink& link, const Function& function) {
  for (int step = 1; step < link.size; ++step) function((link.rank + step) % link.size);
}

/// Receives this rank's part from all other ranks and sums it, segment by segment. Meanwhile, sends every other rank
/// its part.
class PartSums {
 public:
  /// The sums for this rank's part are written to `out`, which can be the same part of `whole`.
  PartSums(const GroupLink& link, const OperationLabel* label, Tensor whole, std::byte* out)
      : link_(link), label_(label), dtype_(whole.dtype()), out_(out), segment_(segment_bytes(link.size)) {
    auto begin = [&](int part) { return part_begin(whole, part, link.size); };
    own_part_ = bytes_of(whole) + begin(link.rank);
    bytes_ = begin(link.rank + 1) - begin(link.rank);
    int tag = tag_of(label->kind, label->number);
    for_others(link, [&](int peer) {
      Lane::End end{.direction = Lane::Direction::send, .peer = peer, .tag = tag, .segment = segment_};
      sends_.add(link, label, end, bytes_of(whole) + begin(peer), begin(peer + 1) - begin(peer));
    });
    inputs_.resize(link.size);
  }
  PartSums(const PartSums&) = delete;

  bool progress() {
    bool moved = true;
    while (moved) {
      moved = false;
      while (received_ < bytes_ && received_ < summed_ + kStagingSlots * segment_) receive_segment();
      while (summed_ < received_ && pending_[slot_of(summed_)] == 0) {
        sum_segment();
        moved = true;
      }
    }
    return sends_.progress() && summed_ == bytes_;
  }

 private:
  std::size_t slot_of(std::size_t offset) const { return offset / segment_ % kStagingSlots; }
  std::byte* staging(std::size_t offset, int peer) const {
    std::size_t ranks = link_.size;
    return link_.staging + (slot_of(offset) * ranks + peer) * segment_;
  }
  void receive_segment() {
    std::size_t bytes = std::min(segment_, bytes_ - received_);
    for_others(link_, [&](int peer) {
      link_.wire->receive({.group = link_.handle,
                           .peer = peer,
                           .tag = tag_of(label_->kind, label_->number),
                           .data = staging(received_, peer),
                           .bytes = bytes,
                           .pending = &pending_[slot_of(received_)],
                           .label = label_});
    });
    received_ += bytes;
  }
  void sum_segment() {
    std::size_t bytes = std::min(segment_, bytes_ - summed_);
    for (int r = 0; r < link_.size; ++r) inputs_[r] = r == link_.rank ? own_part_ + summed_ : staging(summed_, r);
    sum_in_rank_order(dtype_, out_ + summed_, inputs_, bytes);
    summed_ += bytes;
  }

  const GroupLink& link_;
  const OperationLabel* label_;
  DType dtype_;
  std::byte* own_part_;
  std::byte* out_;
  std::size_t segment_, bytes_, received_ = 0, summed_ = 0;  // in bytes; received_ includes receives still in flight
  std::array<int, kStagingSlots> pending_{};
  std::vector<const std::byte*> inputs_;  // one per rank
  Lanes sends_;
};

/// Adds lanes that send this rank's part to every other rank and receive all other parts. This rank's part must already
/// be in place in `whole` when the sends start.
void add_gather(Lanes& lanes, const GroupLink& link, const OperationLabel* label, OperationKind kind, Tensor whole) {
  int tag = tag_of(kind, label->number);
  auto add = [&](Lane::Direction direction, int peer, int part) {
    std::size_t begin = part_begin(whole, part, link.size), end = part_begin(whole, part + 1, link.size);
    lanes.add(link, label, Lane::End{.direction = direction, .peer = peer, .tag = tag}, bytes_of(whole) + begin,
              end - begin);
  };
  for_others(link, [&](int peer) { add(Lane::Direction::receive, peer, peer); });
  for_others(link, [&](int peer) { add(Lane::Direction::send, peer, link.rank); });
}

class AllReduce final : public Task {
 public:
  AllReduce(const GroupLink& link, const OperationLabel& label, Tensor data)
      : Task(label), sums_(link, &this->label(), data, bytes_of(data) + part_begin(data, link.rank, link.size)) {
    add_gather(gather_, link, &this->label(), OperationKind::all_reduce_sums, data);
  }

 private:
  bool progress() override {
    // The gather overwrites the parts that we send here, so all of these sends must complete first.
    summed_ = summed_ || sums_.progress();
    return summed_ && gather_.progress();
  }
  PartSums sums_;
  Lanes gather_;
  bool summed_ = false;
};

class SmallAllReduce final : public Task {
 public:
  SmallAllReduce(const GroupLink& link, const OperationLabel& label, Tensor data)
      : Task(label), link_(link), data_(data) {
    int tag = tag_of(label.kind, label.number);
    auto add = [&](Lane::Direction direction, int peer, std::byte* data) {
      lanes_.add(link_, &this->label(), Lane::End{.direction = direction, .peer = peer, .tag = tag}, data,
                 data_.bytes());
    };
    for_others(link_, [&](int peer) { add(Lane::Direction::receive, peer, staging(peer)); });
    for_others(link_, [&](int peer) { add(Lane::Direction::send, peer, bytes_of(data_)); });
  }

 private:
  std::byte* staging(int peer) const { return link_.staging + peer * kSmallReduction; }
  bool progress() override {
    if (!lanes_.progress()) return false;
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < link_.size; ++r) inputs.push_back(r == link_.rank ? bytes_of(data_) : staging(r));
    sum_in_rank_order(data_.dtype(), bytes_of(data_), inputs, data_.bytes());
    return true;
  }
  const GroupLink& link_;
  Tensor data_;
  Lanes lanes_;
};

class ReduceScatter final : public Task {
 public:
  ReduceScatter(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in)
      : Task(label), sums_(link, &this->label(), in, bytes_of(out)) {}

 private:
  bool progress() override { return sums_.progress(); }
  PartSums sums_;
};

class AllGather final : public Task {
 public:
  AllGather(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in)
      : Task(label), in_(in), own_part_(bytes_of(out) + link.rank * in.bytes()) {
    add_gather(lanes_, link, &this->label(), label.kind, out);
  }

 private:
  bool progress() override {
    if (!copied_ && in_.bytes() > 0 && own_part_ != bytes_of(in_)) std::memmove(own_part_, in_.raw(), in_.bytes());
    copied_ = true;
    return lanes_.progress();
  }
  Tensor in_;
  std::byte* own_part_;  // this rank's part of out
  bool copied_ = false;
  Lanes lanes_;
};

/// Runs its lanes. Involves no arithmetic.
class Exchange final : public Task {
 public:
  explicit Exchange(const OperationLabel& label) : Task(label) {}
  Lanes lanes;

 private:
  bool progress() override { return lanes.progress(); }
};

std::shared_ptr<Task> broadcast_task(const GroupLink& link, const OperationLabel& label, Tensor data, int root) {
  auto task = std::make_shared<Exchange>(label);
  auto add = [&](Lane::Direction direction, int peer) {
    Lane::End end{.direction = direction, .peer = peer, .tag = tag_of(label.kind, label.number)};
    task->lanes.add(link, &task->label(), end, bytes_of(data), data.bytes());
  };
  if (link.rank == root) {
    for_others(link, [&](int peer) { add(Lane::Direction::send, peer); });
  } else {
    add(Lane::Direction::receive, root);
  }
  return task;
}

std::shared_ptr<Task> message_task(const GroupLink& link, const OperationLabel& label, Tensor data, int peer) {
  auto task = std::make_shared<Exchange>(label);
  const bool sends = label.kind == OperationKind::send;
  // Both ends use the same tags: one kind's for each channel.
  const OperationKind tags = label.channel == Channel::activations ? OperationKind::send : OperationKind::receive;
  Lane::End end{.direction = sends ? Lane::Direction::send : Lane::Direction::receive,
                .peer = peer,
                .tag = tag_of(tags, label.number)};
  task->lanes.add(link, &task->label(), end, bytes_of(data), data.bytes());
  return task;
}

}  // namespace

std::shared_ptr<Task> make_task(const GroupLink& link, const OperationLabel& label, const Transfer& transfer) {
  const Tensor &out = transfer.out, &in = transfer.in;
  switch (transfer.kind) {
    case OperationKind::all_reduce:
      if (out.bytes() <= kSmallReduction) return std::make_shared<SmallAllReduce>(link, label, out);
      return std::make_shared<AllReduce>(link, label, out);
    case OperationKind::all_gather:
      return std::make_shared<AllGather>(link, label, out, in);
    case OperationKind::reduce_scatter:
      return std::make_shared<ReduceScatter>(link, label, out, in);
    case OperationKind::broadcast:
      return broadcast_task(link, label, out, transfer.peer);
    default:
      return message_task(link, label, out, transfer.peer);
  }
}

}  // namespace mtl
