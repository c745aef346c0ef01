#include "tests/crash/disk_states.h"

#include <algorithm>
#include <unordered_map>

#include "base/files.h"

namespace mtl::test {

namespace {

constexpr std::size_t kSector = 512;

struct Node {
  std::string data = {};
  std::map<std::string, std::size_t> entries = {};
  bool is_folder = false;
  bool has_name = true;  // false for a file without one, of which a power failure leaves nothing
};

using Disk = std::vector<Node>;  // the first is the recorded folder

/// A change that has not been synced.
struct Change {
  std::size_t node = 0;                                                          // the file or folder that it changes
  std::vector<std::pair<std::string, std::optional<std::size_t>>> entries = {};  // new nodes of names; none: removed
  std::uint64_t offset = 0;
  std::string data = {};
  bool truncates = false;
  std::size_t number = 0;
  std::optional<std::size_t> needs = {};  // the number of a change without which this one is lost
  bool is_entry() const { return !entries.empty(); }
};

enum class Fate { kept, lost, size_only };

void do_change(const Change& change, Disk& disk, Fate fate = Fate::kept, std::size_t bytes = std::string::npos) {
  Node& node = disk[change.node];
  if (fate == Fate::lost) return;
  for (const auto& [name, to] : change.entries) {
    if (to) {
      node.entries[name] = *to;
    } else {
      node.entries.erase(name);
    }
  }
  if (change.is_entry()) return;
  if (change.truncates) return node.data.resize(change.offset);
  bytes = std::min(bytes, change.data.size());
  node.data.resize(std::max<std::size_t>(node.data.size(), change.offset + bytes));
  if (fate == Fate::kept) node.data.replace(change.offset, bytes, change.data, 0, bytes);
}

void list(const Disk& disk, std::size_t node, const std::string& path, FileTree& tree) {
  for (const auto& [name, to] : disk[node].entries) {
    tree[cat(path, name, disk[to].is_folder ? "/" : "")] = disk[to].data;
    if (disk[to].is_folder) list(disk, to, cat(path, name, "/"), tree);
  }
}

FileTree tree_of(const Disk& disk) {
  FileTree tree;
  list(disk, 0, "", tree);
  return tree;
}

/// Follows the calls: the disk as programs see it, what of it is durable, and the changes between the two.
class Replay {
 public:
  explicit Replay(const Record& record) {
    for (const InitialEntry& entry : record.before) {
      const std::size_t node = add_node(entry.node, entry.is_folder);
      now_[node].data = entry.data;
      if (node > 0) now_[number_.at(entry.folder)].entries[entry.name] = node;
    }
    durable_ = now_;
  }

  void run(const Call& call) {
    using Kind = Call::Kind;
    switch (call.kind) {
      case Kind::create: {
        const std::size_t node = add_node(call.node, call.is_folder);
        durable_.push_back({.is_folder = call.is_folder});
        now_[node].has_name = !call.name.empty();
        if (!call.name.empty()) change({.node = number_.at(call.folder), .entries = {{call.name, node}}});
        break;
      }
      case Kind::write:
        return change({.node = number_.at(call.node), .offset = call.offset, .data = call.data});
      case Kind::truncate:
        return change({.node = number_.at(call.node), .offset = call.offset, .truncates = true});
      case Kind::sync:
        return sync(number_.at(call.node));
      case Kind::remove:
        return change({.node = number_.at(call.folder), .entries = {{call.name, std::nullopt}}});
      case Kind::rename:
        return rename(call);
      case Kind::exchange: {
        const std::size_t folder = number_.at(call.folder);
        require(call.folder == call.to_folder, "exchange between folders");
        const auto& entries = now_[folder].entries;
        return change({.node = folder,
                       .entries = {{call.name, entries.at(call.to_name)}, {call.to_name, entries.at(call.name)}}});
      }
      case Kind::mapped:
        fail(Exit::failure, "a file is written through a memory map");
      case Kind::mark:
        break;
    }
  }

  const Disk& now() const { return now_; }
  const Disk& durable() const { return durable_; }
  const std::vector<Change>& pending() const { return pending_; }

 private:
  std::size_t add_node(std::uint64_t inode, bool is_folder) {
    number_[inode] = now_.size();
    now_.push_back({.is_folder = is_folder});
    return now_.size() - 1;
  }
  void change(Change change) {
    if (!now_[change.node].has_name) return;
    change.number = changes_++;
    do_change(change, now_);
    pending_.push_back(std::move(change));
  }
  void rename(const Call& call) {
    const std::size_t from = number_.at(call.folder), to = number_.at(call.to_folder);
    const std::size_t node = now_[from].entries.at(call.name);
    if (from == to) return change({.node = to, .entries = {{call.to_name, node}, {call.name, std::nullopt}}});
    change({.node = to, .entries = {{call.to_name, node}}});
    change({.node = from, .entries = {{call.name, std::nullopt}}, .needs = changes_ - 1});
  }
  void sync(std::size_t node) {
    std::vector<std::size_t> needed;
    for (const Change& one : pending_) {
      if (one.node == node && one.needs) needed.push_back(*one.needs);
    }
    std::erase_if(pending_, [&](const Change& one) {
      const bool is_done = one.node == node || std::ranges::find(needed, one.number) != needed.end();
      if (is_done) do_change(one, durable_);
      return is_done;
    });
  }

  std::unordered_map<std::uint64_t, std::size_t> number_;  // of an inode
  Disk now_, durable_;
  std::vector<Change> pending_;
  std::size_t changes_ = 0;
};

/// What happens to each change, and how much of the last one is written.
struct Fates {
  std::vector<Fate> fates;
  std::size_t last_bytes = std::string::npos;
};

std::vector<Fates> fates_of_writes(const std::vector<Change>& pending, bool ends_in_write) {
  std::vector<std::size_t> writes;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (!pending[i].is_entry()) writes.push_back(i);
  }
  const std::vector<Fate> kept(pending.size(), Fate::kept);
  std::vector<Fates> out = {{kept}};
  if (writes.empty()) return out;
  for (const Fate fate : {Fate::lost, Fate::size_only}) {
    out.push_back({kept});
    for (const std::size_t i : writes) out.back().fates[i] = fate;
  }
  for (const std::size_t i : writes) {
    out.push_back({kept});
    out.back().fates[i] = Fate::lost;
  }
  for (std::size_t bytes = kSector; ends_in_write && bytes < pending.back().data.size(); bytes += kSector)
    out.push_back({kept, bytes});
  return out;
}

/// The subsets of `count` changes that are kept.
std::vector<std::vector<bool>> kept_subsets(std::size_t count) {
  std::vector<std::vector<bool>> out;
  if (count <= 3) {
    for (unsigned bits = 0; bits < 1U << count; ++bits) {
      out.emplace_back();
      for (std::size_t i = 0; i < count; ++i) out.back().push_back((bits >> i & 1) != 0);
    }
    return out;
  }
  out.emplace_back(count, false);
  out.emplace_back(count, false);
  out.back().back() = true;
  for (std::size_t lost = 0; lost < count; ++lost) {
    out.emplace_back(count, true);
    out.back()[lost] = false;
  }
  return out;
}

std::vector<std::vector<Fate>> fates_of_entries(const std::vector<Change>& pending) {
  std::map<std::size_t, std::vector<std::size_t>> by_folder;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (pending[i].is_entry()) by_folder[pending[i].node].push_back(i);
  }
  std::vector<std::vector<Fate>> out;
  for (const Fate others : {Fate::kept, Fate::lost}) {
    out.emplace_back(pending.size(), others);
    for (const auto& [folder, changes] : by_folder) {
      for (const std::vector<bool>& kept : kept_subsets(changes.size())) {
        out.emplace_back(pending.size(), others);
        for (std::size_t i = 0; i < changes.size(); ++i) out.back()[changes[i]] = kept[i] ? Fate::kept : Fate::lost;
      }
    }
  }
  for (std::vector<Fate>& fates : out) {
    for (std::size_t i = 0; i < pending.size(); ++i) {  // what it needs comes right before it
      if (pending[i].needs && i > 0 && pending[i - 1].number == *pending[i].needs && fates[i - 1] == Fate::lost)
        fates[i] = Fate::lost;
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool visit_failures(const Replay& replay, bool ends_in_write, DiskState& state,
                    const std::function<bool(const DiskState&)>& visit) {
  const std::vector<Change>& pending = replay.pending();
  const std::vector<Fates> writes = fates_of_writes(pending, ends_in_write);
  for (const std::vector<Fate>& entries : fates_of_entries(pending)) {
    for (const Fates& write : writes) {
      Disk disk = replay.durable();
      for (std::size_t i = 0; i < pending.size(); ++i) {
        const bool is_last = i + 1 == pending.size();
        do_change(pending[i], disk, pending[i].is_entry() ? entries[i] : write.fates[i],
                  is_last ? write.last_bytes : std::string::npos);
      }
      state.tree = tree_of(disk);
      if (!visit(state)) return false;
    }
  }
  return true;
}

}  // namespace

void visit_states(const Record& record, std::optional<std::size_t> no_sync,
                  const std::function<bool(const DiskState&)>& visit) {
  Replay replay(record);
  DiskState state;
  for (std::size_t i = 0; i < record.calls.size(); ++i) {
    const Call& call = record.calls[i];
    if (i == no_sync) continue;
    replay.run(call);
    if (call.kind == Call::Kind::mark) state.progress = static_cast<std::int64_t>(call.offset);
    state.at = cat("call ", i + 1, " of ", record.calls.size(), " (", call.name, call.path, ")");
    if (no_sync && i < *no_sync) continue;  // as with all syncs
    if (!visit_failures(replay, call.kind == Call::Kind::write, state, visit)) return;
  }
}

FileTree tree_after(const Record& record) {
  Replay replay(record);
  for (const Call& call : record.calls) replay.run(call);
  return tree_of(replay.now());
}

FileTree read_tree(const std::string& folder) {
  FileTree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = fs::relative(entry.path(), folder).string();
    tree[entry.is_directory() ? path + "/" : path] = entry.is_directory() ? "" : read_file(entry.path().string());
  }
  return tree;
}

void write_tree(const FileTree& tree, const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  for (const auto& [path, data] : tree) {  // a folder comes before its content
    if (ends_with(path, "/")) {
      fs::create_directory(cat(folder, "/", path));
    } else {
      OutputFile(cat(folder, "/", path)).write(data);
    }
  }
}

}  // namespace mtl::test
