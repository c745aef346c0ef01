#include "train/save_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace mtl {

namespace {

/// Returns what is wrong with how a process ended, or "".
std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return cat("was ended by signal ", WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  return code == 0 ? "" : cat("failed with exit code ", code);
}

/// Starts a program in a process group of its own, with the signals' usual effects, and returns 0 or the error.
int spawn(char* const* arguments, pid_t* process) {
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);  // mtl-train ignores it, and blocks others
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  const int error = ::posix_spawnp(process, arguments[0], &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

void SaveCommand::start(const std::string& checkpoint, std::int64_t iteration) {
  if (command_.empty()) return;
  require(!running_, "SaveCommand::start: a command is running");
  checkpoint_ = checkpoint;
  std::string path = "MTL_CHECKPOINT=" + std::filesystem::absolute(checkpoint).string();
  std::string number = cat("MTL_ITERATION=", iteration), env = "env", shell = "sh", flag = "-c";
  const std::array<char*, 7> arguments = {env.data(),  path.data(),     number.data(), shell.data(),
                                          flag.data(), command_.data(), nullptr};
  pid_t process = 0;
  const int error = spawn(arguments.data(), &process);
  if (error == 0) return void(running_ = process);
  console_.warn(cat("--after-save: cannot start the command for ", checkpoint_, ": ", std::strerror(error)));
}

std::optional<std::string> SaveCommand::reap(double seconds) {
  const double until = now_seconds() + seconds;
  for (; running_; ::usleep(20'000)) {
    int status = 0;
    const pid_t ended = ::waitpid(*running_, &status, WNOHANG);
    if (ended == 0 && now_seconds() >= until) return std::nullopt;
    if (ended == 0) continue;
    running_.reset();
    return ended < 0 ? "was lost" : describe_end(status);
  }
  return "";
}

bool SaveCommand::wait(double seconds) {
  const std::optional<std::string> problem = reap(seconds);
  if (problem && !problem->empty())
    console_.warn(cat("--after-save: the command for ", checkpoint_, " ", *problem, "; the run continues"));
  return problem.has_value();
}

void SaveCommand::end() {
  if (!running_) return;
  console_.warn(cat("--after-save: the command for ", checkpoint_, " is ended, because it still runs ", kPatience,
                    " seconds after the run had to end"));
  const pid_t group = *running_;
  ::kill(-group, SIGTERM);
  if (reap(3)) return;
  ::kill(-group, SIGKILL);
  reap(3);
}

}  // namespace mtl
