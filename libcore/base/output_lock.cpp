#include "base/output_lock.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/inputs.h"
#include "base/usage_error.h"

namespace mtl {

namespace {

/// Returns true if `file` is NAME.tmp.PID for any NAME in `names`.
bool is_temporary_of(const std::vector<std::string>& names, const std::string& file) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const std::string begin = fs::path(name).filename().string() + ".tmp.";
    return starts_with(file, begin) && is_process_id(std::string_view(file).substr(begin.size()));
  });
}

}  // namespace

std::vector<std::string> find_leftovers(const std::vector<std::string>& names) {
  std::vector<std::string> left;
  for (const std::string& file : list_names(parent_folder(names.front()))) {
    if (is_temporary_of(names, file)) left.push_back(fs::path(names.front()).replace_filename(file).string());
  }
  return left;
}

namespace {

/// Throws UsageError if a prefix is empty or ends in a slash, which would create hidden files such as .bin.
void check_prefixes(const OutputClaim& claim) {
  for (const std::string& prefix : claim.prefixes) {
    if (fs::path(prefix).filename().empty())
      throw UsageError(cat(claim.flag, " ", prefix), "has no file name; give a prefix such as data/corpus");
  }
}

/// Throws UsageError if the run would replace, truncate or remove one of its own inputs.
void check_inputs(const OutputClaim& claim) {
  std::vector<std::string> outputs = claim.names;
  for (const std::string& prefix : claim.prefixes) outputs.push_back(OutputLock::path_of(prefix));
  for (std::string& path : find_leftovers(claim.names)) outputs.push_back(std::move(path));
  refuse_overwriting(claim.inputs, outputs, claim.flag);
}

}  // namespace

bool is_process_id(std::string_view text) {
  constexpr std::int64_t kMaxId = 1 << 22;  // Linux's limit
  if (text.find_first_not_of("0123456789") != std::string_view::npos || starts_with(text, "0")) return false;
  return parse_int(text).value_or(kMaxId + 1) <= kMaxId;
}

void remove_leftovers(const std::vector<std::string>& names, Console& console,
                      const std::function<std::string(const std::string& path)>& reason_to_keep) {
  for (const std::string& path : find_leftovers(names)) {
    if (const std::string reason = reason_to_keep(path); !reason.empty()) {
      console.warn(cat(path, " looks like a leftover of a killed run, but ", reason, "; it is kept"));
      continue;
    }
    try {
      remove_tree(path);
    } catch (const Error& error) {
      console.warn(cat(error.what(), "; nothing needs this leftover of a killed run, so remove it yourself"));
      continue;
    }
    console.info(cat("removed ", path, ", because the run that wrote it was killed"));
  }
}

OutputLock::OutputLock(const std::string& prefix, InterruptGuard& guard, const std::string& flag) : guard_(&guard) {
  std::string owner;
  auto no_signal = guard.defer_signals();
  try {
    lock_ = FileLock::take(path_of(prefix), &owner, {}, &no_signal);
  } catch (const SystemError& error) {
    fail(Exit::io, parent_folder(prefix), ": cannot create files here: ", std::strerror(error.number()),
         error.number() == ENOSPC || error.number() == EDQUOT ? full_disk_remedy(prefix) : "", "; choose another ",
         flag);
  }
  if (!lock_) {
    fail(Exit::failure, prefix, ": another run writes there (", owner, "); wait for it, stop it, or choose another ",
         flag);
  }
  guard.add_lock_file(path());
}

OutputLock::~OutputLock() {
  if (!lock_) return;  // moved from
  const auto no_signal = guard_->defer_signals();
  guard_->forget_lock_file(path());
  ::unlink(path().c_str());
}

std::vector<OutputLock> claim_outputs(const OutputClaim& claim, InterruptGuard& guard, Console& console) {
  check_prefixes(claim);
  check_inputs(claim);
  make_output_directories(fs::path(claim.names.front()).parent_path());
  for (const std::string& name : claim.names) {
    if (is_directory(name)) fail(Exit::io, name, " is a folder, not a file; choose another ", claim.flag);
  }
  std::vector<OutputLock> locks;
  for (const std::string& prefix : claim.prefixes) locks.emplace_back(prefix, guard, claim.flag);
  for (const std::string& name : claim.names) guard.remove_on_signal(AtomicFile::temporary_name(name));
  remove_leftovers(claim.names, console,
                   [](const std::string& path) { return is_directory(path) ? "is a folder" : ""; });
  return locks;
}

void remove_old_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(Exit::io, path, ": cannot remove this file of an earlier run: ", error.message());
}

}  // namespace mtl
