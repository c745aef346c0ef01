#include "cli/bus_error.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/mapped_faults.h"

namespace mtl {

namespace {

constexpr const char* kMessage =
    ": bus error: a token file, a model or a checkpoint was truncated while it was in use, or its disk failed; check "
    "the file and start again\n";

/// The handler's message. Prepared in advance, because a signal handler must not allocate memory.
char message[512];
std::size_t message_bytes = 0;

void handle_bus_error(int, siginfo_t* info, void*) {
  if (take_mapped_fault(info->si_addr)) return;
  (void)!::write(STDERR_FILENO, message, message_bytes);
  ::_exit(static_cast<int>(Exit::io));
}

}  // namespace

void explain_bus_errors(const std::string& program) {
  const std::string text = program.substr(0, 100) + kMessage;
  message_bytes = text.copy(message, sizeof message);
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace mtl
