#include "tests/mirror/nccl.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "ckpt/checkpoint_folder.h"
#include "comm/nccl_library.h"
#include "comm/rank_sums.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

struct ncclComm {
  std::string folder, name;
  const char* callers_name = nullptr;  // NCCL keeps only the pointer (config.commName in NCCL's src/init.cc)
  int rank = 0, size = 1;
  bool limited = false;      // to few blocks (config.maxCTAs)
  std::int64_t started = 0;  // counts messages too: a message group has one direction
  mtl::cuda::StreamHandle stream = nullptr;
  std::atomic<bool> aborted = false;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // also held by each operation in a graph
};

namespace mtl {

namespace {

struct Emulation {
  std::atomic<std::int64_t> operations = 0, aborts = 0, registered = 0;
  std::atomic<const char*> fault = nullptr;
  std::thread::id host;  // the thread that uses the device
};
Emulation& emulation() {
  static auto& only = *new Emulation;
  return only;
}

constexpr std::size_t kHead = 64;  // size of a file's header, which gives its operation

/// Writes a file that appears under its name only once complete.
void publish(const std::string& path, const std::string& head, const Bytes& data) {
  {
    std::ofstream file(path + ".part", std::ios::binary);
    std::string padded = head;
    padded.resize(kHead, ' ');
    file << padded;
    file.write(reinterpret_cast<const char*>(data.data()), std::ssize(data));
    require(file.good(), "emulated NCCL: cannot write ", path);
  }
  fs::rename(path + ".part", path);
}

/// Reads a file; returns false if it does not exist yet. Throws if its writer started a different operation.
bool try_read(const std::string& path, const std::string& head, Bytes& out) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return false;
  const auto size = static_cast<std::size_t>(file.tellg());
  std::string found(kHead, ' ');
  out.resize(size - kHead);
  file.seekg(0);
  file.read(found.data(), kHead);
  file.read(reinterpret_cast<char*>(out.data()), std::ssize(out));
  found.erase(found.find_last_not_of(' ') + 1);
  require(found == head, "emulated NCCL: ", path, ": members start different operations: '", head, "' and '", found,
          "'");
  return true;
}

std::vector<mirror::Memory> memory_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {{tensor.raw(), tensor.bytes()}};
}

/// A member's part in one operation. run() publishes the member's contribution, `own`. It returns true once the
/// required files from the other members exist and `finish` has computed the result, `out`.
class Exchange {
 public:
  using Finish = std::function<void(std::vector<Bytes>&)>;

  Exchange(ncclComm* group, std::string head, Tensor own, Tensor out, std::vector<int> from, Finish finish)
      : group_(group),
        number_(group->started++),
        head_(std::move(head)),
        own_(own),
        out_(out),
        from_(std::move(from)),
        finish_(std::move(finish)),
        parts_(from_.size()) {}

  bool run() {
    if (group_->aborted) return true;
    if (!published_) {
      const mirror::Opened opened(memory_of(own_));
      const auto* data = static_cast<const std::byte*>(own_.raw());
      publish(path(group_->rank), head_, own_.exists() ? Bytes(data, data + own_.bytes()) : Bytes());
      published_ = true;
    }
    for (; next_ < from_.size(); ++next_) {
      if (!try_read(path(from_[next_]), head_, parts_[next_])) return false;
    }
    {
      const mirror::Opened opened(memory_of(out_));
      finish_(parts_);
    }
    // All members have published this operation, so they have finished the previous one.
    if (number_ > 0 && group_->size > 1) fs::remove(path(group_->rank, number_ - 1));
    return true;
  }

 private:
  std::string path(int rank, std::int64_t number) const { return cat(group_->folder, "/", number, "-", rank); }
  std::string path(int rank) const { return path(rank, number_); }

  ncclComm* group_;
  std::int64_t number_;
  std::string head_;
  Tensor own_, out_;
  std::vector<int> from_;
  Finish finish_;
  std::vector<Bytes> parts_;
  std::size_t next_ = 0;
  bool published_ = false;
};

/// ncclCommAbort and ncclCommDestroy do not return while a graph exists that has captured one of the group's operations
/// (commDestroySync in NCCL's src/init.cc).
void wait_for_graphs(const ncclComm& group) {
  while (group.graphs.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void copy_in(const Tensor& out, std::size_t offset, const Bytes& part) {
  std::memcpy(static_cast<std::byte*>(out.raw()) + offset, part.data(), part.size());
}

class EmulatedNccl final : public NcclLibrary {
 public:
  std::string unique_id() override {
    // Not the process id, which a later process reuses: a killed job leaves its folder, and a member that read old
    // files would run ahead and remove its own before the others have read them.
    std::string id = cat("mtl-nccl-", random_id());
    id.resize(128, '\0');
    return id;
  }
  NcclHandle open(const std::string& id, int rank, int size, const std::string& name, int blocks) override {
    require(id.size() == 128, "emulated NCCL: an id of ", id.size(), " bytes");
    emulation().host = std::this_thread::get_id();
    auto* group = new ncclComm;
    group->folder = cat(fs::exists("/dev/shm") ? "/dev/shm/" : "/tmp/", id.c_str());
    group->name = name;
    group->callers_name = name.c_str();
    group->rank = rank;
    group->size = size;
    group->limited = blocks > 0;
    fs::create_directories(group->folder);
    publish(cat(group->folder, "/here-", rank), name, {});
    Bytes none;
    for (int other = 0; other < size; ++other) {
      while (!try_read(cat(group->folder, "/here-", other), name, none))
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return group;
  }
  void close(NcclHandle group) noexcept override {
    wait_for_graphs(*group);
    publish(cat(group->folder, "/gone-", group->rank), group->name, {});
    Bytes none;
    if (group->rank == 0) {
      for (int other = 0; other < group->size; ++other) {
        while (!try_read(cat(group->folder, "/gone-", other), group->name, none))
          std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      fs::remove_all(group->folder);
    }
    delete group;
  }
  void abort(const std::vector<NcclHandle>& groups) noexcept override {
    mirror::expect_device("an abort");
    for (NcclHandle group : groups) {
      ++emulation().aborts;
      group->aborted = true;  // not deleted: its commands still read it
    }
    for (NcclHandle group : groups) wait_for_graphs(*group);
  }
  std::string fault(NcclHandle group) override {
    require(!group->aborted, "emulated NCCL: a call after abort");
    if (std::this_thread::get_id() == emulation().host) mirror::advance();  // the host waits for other ranks
    const char* text = emulation().fault;
    return text == nullptr ? "" : text;
  }

  void start(NcclHandle group, cuda::StreamHandle stream, const Transfer& transfer) override {
    const auto& [kind, out, in, peer, of_message] = transfer;
    switch (kind) {
      case OperationKind::all_reduce:
        return all_reduce(group, stream, out);
      case OperationKind::all_gather:
        return all_gather(group, stream, out, in);
      case OperationKind::reduce_scatter:
        return reduce_scatter(group, stream, out, in);
      case OperationKind::broadcast:
        return broadcast(group, stream, out, peer);
      case OperationKind::send:
        return send(group, stream, out, 1);
      default:
        return receive(group, stream, out, 0);
    }
  }

  void* register_memory(NcclHandle, Tensor memory) override {
    expect_memory(memory);
    ++emulation().registered;
    return new Tensor(memory);
  }
  void deregister_memory(NcclHandle, void* registered) noexcept override {
    expect_memory(*static_cast<Tensor*>(registered));  // not freed yet
    delete static_cast<Tensor*>(registered);
    --emulation().registered;
  }

 private:
  struct Plan {
    std::string head;
    Tensor own, out;
    std::vector<int> from;
    Exchange::Finish finish;
  };

  static void expect_memory(const Tensor& tensor) { mirror::require_inside(tensor.raw(), tensor.bytes()); }

  static void sum(const Tensor& out, std::vector<Bytes>& parts, std::size_t offset) {
    std::vector<const std::byte*> inputs;
    for (const Bytes& part : parts) inputs.push_back(part.data() + offset);
    sum_in_rank_order(out.dtype(), static_cast<std::byte*>(out.raw()), inputs, out.bytes());
  }

  static void collective(ncclComm* group, cuda::StreamHandle stream, const std::string& head, const Tensor& own,
                         const Tensor& out, Exchange::Finish finish) {
    std::vector<int> all;
    for (int rank = 0; rank < group->size; ++rank) all.push_back(rank);
    enqueue(group, stream, {head, own, out, std::move(all), std::move(finish)});
  }

  static void all_reduce(NcclHandle group, cuda::StreamHandle stream, Tensor data) {
    collective(group, stream, cat("all-reduce ", name_of(data.dtype()), " ", data.bytes()), data, data,
               [=](std::vector<Bytes>& parts) { sum(data, parts, 0); });
  }
  static void all_gather(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) {
    collective(group, stream, cat("all-gather ", out.bytes()), in, out, [=](std::vector<Bytes>& parts) {
      for (std::size_t r = 0; r < parts.size(); ++r) copy_in(out, r * in.bytes(), parts[r]);
    });
  }
  static void reduce_scatter(NcclHandle group, cuda::StreamHandle stream, Tensor out, Tensor in) {
    collective(group, stream, cat("reduce-scatter ", name_of(in.dtype()), " ", in.bytes()), in, out,
               [=, rank = group->rank](std::vector<Bytes>& parts) { sum(out, parts, rank * out.bytes()); });
  }
  static void broadcast(NcclHandle group, cuda::StreamHandle stream, Tensor data, int root) {
    collective(group, stream, cat("broadcast ", data.bytes(), " ", root), data, data,
               [=](std::vector<Bytes>& parts) { copy_in(data, 0, parts[root]); });
  }
  static void send(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) {
    enqueue(group, stream, {cat("message ", data.bytes()), data, {}, {peer}, [](std::vector<Bytes>&) {}});
  }
  // The receiver confirms with an empty message, and the sender waits for it. Callers must not rely on NCCL's
  // buffering.
  static void receive(NcclHandle group, cuda::StreamHandle stream, Tensor data, int peer) {
    // NCCL's kernel holds a block per channel while it waits; channels are as many as config.maxCTAs allows
    // (ncclTopoComputeP2pChannels in src/graph/paths.cc).
    require(group->limited, "emulated NCCL: a receive that may occupy the GPU");
    enqueue(group, stream, {cat("message ", data.bytes()), {}, data, {peer}, [=](std::vector<Bytes>& parts) {
                              require(parts[0].size() == data.bytes(), "emulated NCCL: a message of another size");
                              copy_in(data, 0, parts[0]);
                            }});
  }

  static void enqueue(ncclComm* group, cuda::StreamHandle stream, Plan plan) {
    require(!group->aborted, "emulated NCCL: a call after abort");
    require(group->callers_name == group->name, "emulated NCCL: the name of group '", group->name, "' has changed");
    require(group->stream == nullptr || group->stream == stream || cuda::is_captured(stream), "emulated NCCL: group '",
            group->name, "' is used on two streams");
    group->stream = stream;
    for (const Tensor& tensor : {plan.own, plan.out}) {
      if (tensor.exists()) expect_memory(tensor);
    }
    ++emulation().operations;
    mirror::enqueue_polled(stream, [group, plan, in_graph = cuda::is_captured(stream) ? group->graphs : nullptr] {
      auto exchange = std::make_shared<Exchange>(group, plan.head, plan.own, plan.out, plan.from, plan.finish);
      return [exchange] { return exchange->run(); };
    });
  }
};

}  // namespace

NcclLibrary& nccl_library() {
  static auto& only = *new EmulatedNccl;
  return only;
}

namespace mirror {

NcclCounts nccl_counts() { return {emulation().operations, emulation().aborts, emulation().registered}; }
void simulate_nccl_fault(const char* text) { emulation().fault = text; }

}  // namespace mirror

}  // namespace mtl
