// The states in which a power failure could leave a folder, from the record of the calls that changed it.
//
// After each call, these may be lost: the writes to a file since its last fsync, and the changes of a folder's entries
// since the folder's last fsync. Nothing else: a rename within a folder is atomic, and one between two folders leaves
// at least one of the names. Each state combines one choice of each kind:
//
//   writes     all kept; all lost; all lost but the file's size (zeros); each single one lost; the last one torn at
//              each multiple of 512 bytes
//   entries    all kept; all lost; of each folder, with those of the others all kept or all lost: every subset of up to
//              three, and of more each single one lost, all lost, only the last one kept
//
// This is weaker than any journaling file system, which keeps the order of such changes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/crash/recorder.h"

namespace mtl::test {

/// Files with their content, and folders, whose paths end in "/". Relative paths.
using FileTree = std::map<std::string, std::string>;

struct DiskState {
  FileTree tree;
  std::int64_t progress = 0;  // of the last Recorder::mark() before the failure
  std::string at = {};        // the call after which the power failed, for messages
};

/// Calls `visit` with every state, some of them repeatedly, until it returns false. With `no_sync`, ignores that call,
/// which is a sync, and leaves out the states before it.
void visit_states(const Record& record, std::optional<std::size_t> no_sync,
                  const std::function<bool(const DiskState&)>& visit);

/// Returns what the calls leave without a failure.
FileTree tree_after(const Record& record);
FileTree read_tree(const std::string& folder);
/// Replaces the content of `folder`.
void write_tree(const FileTree& tree, const std::string& folder);

}  // namespace mtl::test
