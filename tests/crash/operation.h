// An operation that changes a folder, and the test of all states in which a power failure could leave that folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/crash/disk_states.h"

namespace mtl::test {

/// A sync without which no state of an operation is worse, and why the program calls it.
struct RedundantSync {
  std::string name;  // a part of its name in the messages, "PATH after CALL"
  std::string why;
};

struct Operation {
  std::string name;
  std::function<void(const std::string& folder)> prepare = [](const std::string&) {};  // not recorded
  std::function<void(const std::string& folder, Recorder& recorder)> run;
  /// Opens what is in the folder, as the programs do, and returns what is wrong with it, or "".
  std::function<std::string(const std::string& folder, std::int64_t progress)> check;
  /// Then runs the operation again or goes on, and returns what is wrong with that. Most states run this only in the
  /// long test.
  std::function<std::string(const std::string& folder)> go_on = {};
  /// A command that must succeed in states that promise `progress_of_command`; "" if there is none.
  std::string command = {};
  std::int64_t progress_of_command = 0;
  std::vector<RedundantSync> redundant = {};
};

/// Runs the operation in an empty folder, and checks every state. Then leaves out fsyncs, one at a time: a state must
/// fail its check unless `redundant` lists the sync, and none if it does. If `is_long`, leaves out each of
/// them, otherwise three drawn from a seed. Prints the number of states.
void test_operation(const Operation& operation, bool is_long);

/// Hashes of all files below `folder`, except manifest.json, which says when it was written, and locks.
std::string digest_of(const std::string& folder);

}  // namespace mtl::test
