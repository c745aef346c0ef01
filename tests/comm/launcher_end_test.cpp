// A launcher that does not end with its job is ended.
#include "comm/launcher_end.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace mtl;

TEST_CASE("a launcher that ignores TERM is killed, and so is its rank") {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::prctl(PR_SET_NAME, "mpirun");
    std::signal(SIGTERM, SIG_IGN);  // the rank inherits this
    if (::fork() == 0) end_launcher_after(0.1);
    ::alarm(20);
    while (true) ::pause();
  }
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}
