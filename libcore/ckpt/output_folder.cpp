#include "ckpt/output_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/model_folder.h"

namespace mtl {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const std::string& path, const Parts&... parts) {
  fail(Exit::usage, "--save ", path, " ", parts...);
}

/// Returns the target's absolute path, without symbolic links. The target need not exist.
std::string resolve(const std::string& given) {
  if (given.find('\0') != std::string::npos)
    refuse(given.c_str(), "contains a NUL byte, which no file name can contain");
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::error_code error;
  if (fs::is_symlink(path, error) && !file_exists(path))
    refuse(given, "is a symbolic link to ", fs::read_symlink(path, error).string(),
           ", which does not exist; create that folder, or choose another one");
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) fail(Exit::io, "--save ", given, ": cannot resolve this path: ", error.message());
  path = resolved.lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// True if `inner` is `outer` or is inside `outer`. Follows symbolic links. The paths need not exist.
bool contains(const std::string& outer, const std::string& inner) {
  std::error_code error;
  const std::string folder = fs::weakly_canonical(outer, error).string();
  const std::string path = error ? "" : fs::weakly_canonical(inner, error).string();
  if (error) return false;
  return path == folder || starts_with(path, folder == "/" ? folder : folder + "/");
}

bool is_mount_point(const std::string& path) {
  struct stat self {
  }, parent{};
  const std::string above = fs::path(path).parent_path().string();
  return ::stat(path.c_str(), &self) == 0 && ::stat(above.c_str(), &parent) == 0 && self.st_dev != parent.st_dev;
}

bool is_filled(const std::string& path) {
  std::error_code error;
  const bool empty = fs::is_empty(path, error);
  if (error) fail(Exit::io, path, ": cannot list: ", error.message());
  return !empty;
}

void remove_staged(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

/// Performs the checks that do not need the lock, cheapest first.
void OutputFolder::check_target(const OutputFolderOptions& options) const {
  std::error_code error;
  if (contains(path_, fs::current_path(error).string()))
    refuse(options.path, "is the current folder, or contains it; choose a folder inside it");
  if (contains(path_, options.source))
    refuse(options.path, "is or contains the model to read, ", options.source, "; choose another folder");
  for (const std::string& leftover : find_leftovers({path_})) {
    if (contains(leftover, options.source))
      refuse(options.path, "would remove ", leftover,
             ", which contains the model to read, as a leftover of a killed run; rename that folder, or choose another "
             "one");
  }
  if (iteration_in_name(fs::path(path_).filename().string()))
    refuse(options.path, "is the name of a checkpoint inside a save folder; choose another name");
  if (!file_exists(path_)) return;
  if (!is_directory(path_)) fail(Exit::io, path_, " is a file; choose another folder for --save");
  if (is_mount_point(path_))
    refuse(options.path, "is a mount point, which cannot be replaced; choose a folder inside it");
  if (is_filled(path_) && !options.replace)
    fail(Exit::usage, path_, " is not empty; choose another folder for --save, or add --force to replace it");
}

OutputFolder::OutputFolder(const OutputFolderOptions& options, InterruptGuard& guard, Console& console)
    : path_(resolve(options.path)), staged_(cat(path_, ".tmp.", ::getpid())), guard_(guard) {
  check_target(options);
  const std::string parent = parent_folder(path_);
  if (file_exists(parent) && !is_directory(parent))
    refuse(options.path, "cannot be created, because ", parent, " is a file; choose another folder");
  make_output_directories(parent);
  lock_.emplace(path_, guard_, "--save");
  remove_leftovers({path_}, console, [](const std::string& path) { return find_foreign_entry(path); });
  if (file_exists(staged_))
    fail(Exit::usage, staged_, " has the name of this run's temporary folder; rename or remove it");
  if (file_exists(path_) && is_filled(path_)) {
    // Take the lock first, because "another job saves here" is a better error than one about that job's files.
    if (file_exists(cat(path_, "/", kLockName))) save_lock_.emplace(path_);
    const FolderContents contents = examine_model_folder(path_);
    if (!contents.problem.empty()) {
      refuse(
          path_, contents.problem,
          "; --force replaces a folder only if it contains a model or one checkpoint and nothing else; choose another "
          "folder, or remove what is in this one");
    }
    if (contents.is_save_folder && !save_lock_) save_lock_.emplace(path_);
    replaced_ = contents.kind;
    console.info(cat("replacing ", path_, ": ", replaced_));
  }
  guard_.remove_on_signal(staged_);
  make_directories(staged_);
}

OutputFolder::~OutputFolder() {
  if (!committed_) remove_staged(staged_);
}

void OutputFolder::check_replaced() const {
  const FolderContents contents = examine_model_folder(path_);
  if (contents.problem.empty()) return;
  fail(Exit::failure, path_, " was changed during the conversion and now ", contents.problem,
       "; the folder is left as it is, and the new model is discarded");
}

void OutputFolder::commit() {
  sync_directory(staged_);
  {
    const auto no_signal = guard_.keep_files();  // a signal must not remove files between the two renames
    if (!replaced_.empty()) check_replaced();
    publish(staged_, path_, !replaced_.empty());
    committed_ = true;
  }
  if (replaced_.empty()) return;
  try {
    remove_tree(staged_);
  } catch (const Error& error) {
    fail(Exit::io, path_, " is complete, but the folder that it replaced (", replaced_, ", now ", staged_,
         ") could not be removed: ", error.what(), "; remove that folder");
  }
}

}  // namespace mtl
