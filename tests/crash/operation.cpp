#include "tests/crash/operation.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "tests/scratch_folder.h"

namespace mtl::test {

namespace {

constexpr std::uint32_t kSeed = 20261130;
constexpr std::size_t kSyncsToLeaveOut = 3, kCommands = 3;
constexpr std::uint64_t kGoOnEvery = 16;

/// Checks states, each once.
class Checker {
 public:
  /// Goes on after one state of `every`.
  Checker(const Operation& operation, std::string folder, std::uint64_t every)
      : operation_(operation), folder_(std::move(folder)), every_(every) {}

  /// Returns what is wrong with the state, or "".
  const std::string& check(const DiskState& state) {
    Hasher hasher;
    for (const auto& [path, data] : state.tree) {
      const std::uint64_t sizes[] = {path.size(), data.size()};
      hasher.update(sizes, sizeof sizes);
      hasher.update(path.data(), path.size());
      hasher.update(data.data(), data.size());
    }
    const auto [found, is_new] = problems_.try_emplace({hasher.digest(), state.progress});
    if (!is_new) return found->second;
    write_tree(state.tree, folder_);
    try {
      found->second = operation_.check(folder_, state.progress);
      if (found->second.empty() && hasher.digest() % every_ == 0) found->second = operation_.go_on(folder_);
    } catch (const std::exception& error) {
      found->second = error.what();
    }
    return found->second;
  }
  std::size_t checked() const { return problems_.size(); }

 private:
  const Operation& operation_;
  std::string folder_;
  std::uint64_t every_;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::string> problems_;  // of each state, by its hash and progress
};

std::string describe(const DiskState& state, const std::string& problem) {
  std::string out = cat("power failure after ", state.at, ", progress ", state.progress, ": ", problem);
  for (const auto& [path, data] : state.tree) out += cat("\n  ", path, " ", data.size());
  return out;
}

/// Returns the first problem in the states without a sync, or "".
std::string first_problem(Checker& checker, const Record& record, std::optional<std::size_t> no_sync) {
  std::string first;
  visit_states(record, no_sync, [&](const DiskState& state) {
    if (const std::string& problem = checker.check(state); !problem.empty()) first = describe(state, problem);
    return first.empty();
  });
  return first;
}

/// Returns "PATH after CALL", where the call is the one before, and names have no process ids.
std::string name_of_call(const Record& record, std::size_t call) {
  static constexpr const char* kKinds[] = {"create",   "write",  "truncate", "sync", "rename",
                                           "exchange", "remove", "mapped",   "mark"};
  std::string name = record.calls[call].path;
  if (call > 0) {
    const Call& before = record.calls[call - 1];
    name += cat(" after ", kKinds[static_cast<int>(before.kind)], " ",
                before.to_name.empty() ? before.name : before.to_name, before.path);
  }
  const std::string mark = cat(".", ::getpid());
  for (std::size_t at = 0; (at = name.find(mark)) != std::string::npos;) name.erase(at, mark.size());
  return name;
}

/// The same, with " (2)" after a second sync of this name, and so on.
std::string name_of_sync(const Record& record, std::size_t call) {
  const std::string name = name_of_call(record, call);
  int count = 1;
  for (std::size_t i = 0; i < call; ++i)
    count += record.calls[i].kind == Call::Kind::sync && name_of_call(record, i) == name;
  return count == 1 ? name : cat(name, " (", count, ")");
}

void check_sync(Checker& checker, const Operation& operation, const Record& record, std::size_t call) {
  const std::string name = name_of_sync(record, call);
  const auto listed = std::ranges::find_if(operation.redundant, [&](const RedundantSync& redundant) {
    return name.find(redundant.name) != std::string::npos;
  });
  const bool is_redundant = listed != operation.redundant.end();
  const std::string problem = first_problem(checker, record, call);
  MESSAGE(operation.name, ": without the sync of ", name, ": ",
          problem.empty() ? std::string("no state is worse") : problem.substr(0, problem.find('\n')));
  CHECK_MESSAGE(problem.empty() == is_redundant, operation.name, ": the sync of ", name,
                std::string(is_redundant ? " is listed as redundant, but is not" : " is redundant, but not listed"));
}

/// Runs the operation's command in a few of the states.
void check_command(const Operation& operation, const Record& record, const std::string& folder) {
  std::vector<DiskState> states;
  std::set<FileTree> seen;
  visit_states(record, std::nullopt, [&](const DiskState& state) {
    if (state.progress >= operation.progress_of_command && seen.insert(state.tree).second) states.push_back(state);
    return true;
  });
  std::mt19937 random(kSeed);
  std::ranges::shuffle(states, random);
  states.resize(std::min(states.size(), kCommands));
  const std::string programs = fs::read_symlink("/proc/self/exe").parent_path().string();
  for (const DiskState& state : states) {
    write_tree(state.tree, folder);
    const std::string command =
        cat("cd ", folder, " && PATH=", programs, ":$PATH && ", operation.command, " >log 2>&1");
    CHECK_MESSAGE(std::system(command.c_str()) == 0, describe(state, command), "\n", read_file(folder + "/log"));
  }
}

}  // namespace

void test_operation(const Operation& operation, bool is_long) {
  if (is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);  // thousands of small files
  const ScratchFolder scratch;
  const std::string folder = fs::canonical(scratch.path()).string();
  operation.prepare(folder);
  Record record;
  {
    Recorder recorder(folder);
    operation.run(folder, recorder);
    record = recorder.take();
  }
  REQUIRE_MESSAGE(tree_after(record) == read_tree(folder), operation.name, ": calls are missing in the record");

  Checker checker(operation, folder, is_long ? 1 : kGoOnEvery);
  std::size_t failed = 0, visited = 0;
  visit_states(record, std::nullopt, [&](const DiskState& state) {
    ++visited;
    const std::string& problem = checker.check(state);
    CHECK_MESSAGE(problem.empty(), operation.name, ": ", describe(state, problem));
    failed += !problem.empty();
    return failed < 2;
  });
  std::vector<std::size_t> syncs;
  for (std::size_t i = 0; i < record.calls.size(); ++i) {
    if (record.calls[i].kind == Call::Kind::sync) syncs.push_back(i);
  }
  MESSAGE(operation.name, ": ", record.calls.size(), " calls, ", syncs.size(), " of them syncs; ", checker.checked(),
          " states (", visited, " with repetitions)");
  if (failed > 0) return;
  if (!operation.command.empty()) check_command(operation, record, folder);
  std::mt19937 random(kSeed);
  if (!is_long) std::ranges::shuffle(syncs, random);
  if (!is_long) syncs.resize(std::min(syncs.size(), kSyncsToLeaveOut));
  if (!is_long) MESSAGE(operation.name, ": the syncs to leave out are drawn from seed ", kSeed);
  for (const std::size_t call : syncs) check_sync(checker, operation, record, call);
}

std::string digest_of(const std::string& folder) {
  std::string out;
  for (const auto& [path, data] : read_tree(folder)) {
    Hasher hasher;
    hasher.update(data.data(), data.size());
    if (!ends_with(path, "manifest.json") && !ends_with(path, "lock"))
      out += cat(path, " ", hash_text(hasher.digest()), "\n");
  }
  return out;
}

}  // namespace mtl::test
