#include "cli/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "cli/inputs.h"

namespace mtl {

namespace {

/// What its holder wrote into a lock.
std::string read_owner(int descriptor) {
  char text[512];
  const ssize_t size = ::pread(descriptor, text, sizeof text, 0);
  return std::string(trim(std::string_view(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)))));
}

/// Whether a file is NAME.tmp.PID of one of the names.
bool is_temporary_of(const std::vector<std::string>& names, const std::string& file) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const std::string begin = fs::path(name).filename().string() + ".tmp.";
    return starts_with(file, begin) && file.find_first_not_of("0123456789", begin.size()) == std::string::npos;
  });
}

}  // namespace

std::vector<std::string> find_leftovers(const std::vector<std::string>& names) {
  std::vector<std::string> left;
  std::error_code error;  // a folder that cannot be listed keeps what is in it
  for (fs::directory_iterator at(folder_of(names.front()), error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (is_temporary_of(names, file)) left.push_back(fs::path(names.front()).replace_filename(file).string());
  }
  return left;
}

namespace {

/// No name that the run replaces, truncates or removes is an input.
void check_inputs(const OutputClaim& claim) {
  std::vector<std::string> outputs = claim.names;
  for (const std::string& prefix : claim.prefixes) outputs.push_back(OutputLock::path_of(prefix));
  for (std::string& path : find_leftovers(claim.names)) outputs.push_back(std::move(path));
  refuse_overwriting(claim.inputs, outputs);
}

}  // namespace

void remove_leftovers(const std::vector<std::string>& names, Console& console) {
  for (const std::string& path : find_leftovers(names)) {
    remove_tree(path);
    console.info(cat(path, ": removed; the run that wrote it was killed"));
  }
}

OutputLock::OutputLock(const std::string& prefix, std::string flag) : path_(path_of(prefix)), flag_(std::move(flag)) {
  constexpr int kTries = 1000;  // each but the last met a run that has just finished
  for (int tries = 0; tries < kTries; ++tries) {
    if (take(prefix)) return;
  }
  fail(Exit::io, path_, ": cannot lock this file: it is another one whenever it is looked at; ", "choose another ",
       flag_);
}

/// False when the file went away between opening and locking it: its last holder has just finished.
bool OutputLock::take(const std::string& prefix) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(Exit::io, folder_of(prefix), ": cannot create files here: ", std::strerror(errno), "; choose another ", flag_);
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string owner = read_owner(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    fail(Exit::failure, prefix, ": another run writes there (", owner, "); wait for it, end it, or choose another ",
         flag_);
  }
  struct stat mine {
  }, current{};
  const bool is_known = ::fstat(descriptor_, &mine) == 0 && ::stat(path_.c_str(), &current) == 0;
  const int code = errno;
  if (!is_known || mine.st_ino != current.st_ino || mine.st_dev != current.st_dev) {
    ::close(std::exchange(descriptor_, -1));
    if (!is_known && code != ENOENT) fail(Exit::io, path_, ": cannot look at this file: ", std::strerror(code));
    return false;
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string owner = cat("pid ", ::getpid(), " on ", host, " since ", timestamp(), "\n");
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, owner.data(), owner.size(), 0) < 0) {
    // What it says is for people only.
  }
  return true;
}

void OutputLock::release() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

std::vector<OutputLock> claim_outputs(const OutputClaim& claim, InterruptGuard& guard, Console& console) {
  check_inputs(claim);
  make_directories(fs::path(claim.names.front()).parent_path());
  for (const std::string& name : claim.names) {
    std::error_code unknown;  // then opening the files says what is wrong
    if (fs::is_directory(name, unknown))
      fail(Exit::io, name, ": is a folder, where a file is to be; choose another --output-prefix");
  }
  std::vector<OutputLock> locks;
  for (const std::string& prefix : claim.prefixes) guard.remove_on_signal(locks.emplace_back(prefix).path());
  for (const std::string& name : claim.names) guard.remove_on_signal(AtomicFile::temporary_name(name));
  remove_leftovers(claim.names, console);
  return locks;
}

void remove_old_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(Exit::io, path, ": cannot remove this file of an earlier run: ", error.message());
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace mtl
