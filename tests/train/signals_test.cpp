// Signals become requests and do not interrupt computing threads.
#include "train/signals.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>

using namespace mtl;
using std::chrono::milliseconds, std::chrono::steady_clock;

namespace {

// A script that runs the tests in the background ignores INT.
[[maybe_unused]] const auto inherited_int = std::signal(SIGINT, SIG_DFL);

void send(int number) { ::kill(::getpid(), number); }

/// Waits up to ten seconds for the condition. Returns true if it holds.
bool happens(const std::function<bool()>& condition) {
  for (auto end = steady_clock::now() + std::chrono::seconds(10); steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

/// Runs `body` in a child process and returns its wait status. If `body` returns, the child exits with 3 for true, 4
/// for false.
int status_of(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body() ? 3 : 4);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

/// Returns what child processes wrote to a pipe, and closes it.
std::string text_from(const int (&ends)[2]) {
  ::close(ends[1]);
  std::string text;
  for (char c = 0; ::read(ends[0], &c, 1) == 1;) text += c;
  ::close(ends[0]);
  return text;
}

/// Returns true once the signals sent so far have been recorded. SIGINT and SIGTERM are recorded before SIGUSR1.
bool records(SignalRequests& requests, int number) {
  send(number);
  if (!happens([&] { return requests.end_requested(); })) return false;
  send(SIGUSR1);
  return happens([&] { return requests.take_save(); });
}

}  // namespace

TEST_CASE("signals are requests, each taken once; a request to end persists") {
  {
    SignalRequests requests;
    CHECK(!requests.take_save());
    CHECK(!requests.take_status());
    send(SIGUSR1);
    CHECK(happens([&] { return requests.take_save(); }));
    CHECK(!requests.take_save());
    CHECK(!requests.take_status());
    send(SIGUSR2);
    CHECK(happens([&] { return requests.take_status(); }));
    CHECK(!requests.take_status());
    CHECK(!requests.end_requested());
    send(SIGTERM);
    CHECK(happens([&] { return requests.end_requested(); }));
    CHECK(requests.end_requested());
  }
  SignalRequests others;  // a later run starts without earlier requests
  CHECK(!others.end_requested());
  CHECK(!others.take_status());
  send(SIGINT);
  CHECK(happens([&] { return others.end_requested(); }));
}

TEST_CASE("a request is answered at once with the iteration, once until it has been taken, and not before the run") {
  for (const bool saves : {true, false}) {
    CAPTURE(saves);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const int status = status_of([&] {
      ::dup2(ends[1], STDERR_FILENO);
      SignalRequests requests;
      send(SIGUSR1);
      if (!happens([&] { return requests.take_save(); })) return false;
      requests.begin_run(true, saves);
      requests.begin_iteration(7);
      send(SIGUSR1);
      if (!happens([&] { return requests.take_save(); })) return false;
      requests.begin_iteration(8);
      if (!records(requests, SIGTERM) || !records(requests, SIGHUP)) return false;
      requests.end_run();
      return records(requests, SIGXCPU);
    });
    const std::string text = text_from(ends);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 3);
    const std::string save = saves ? ", then saving\n" : "; without --save nothing is kept\n";
    CHECK(text == "mtl-train: USR1: finishing iteration 7" + save + "mtl-train: TERM: finishing iteration 8" +
                      (saves ? ", then saving and ending\n" : ", then ending; without --save nothing is kept\n") +
                      "mtl-train: USR1: finishing iteration 8" + save + "mtl-train: USR1: finishing iteration 8" +
                      save + "mtl-train: USR1: the run is ending already\n");
  }
}

TEST_CASE("INT and HUP request the end, unless they were ignored at the start; TERM, XCPU and USR1 always count") {
  for (int number : {SIGHUP, SIGINT, SIGTERM, SIGXCPU}) {
    for (bool is_ignored : {false, true}) {
      CAPTURE(number);
      const auto before = std::signal(number, is_ignored ? SIG_IGN : SIG_DFL);
      {
        SignalRequests requests;
        send(number);
        send(SIGUSR1);  // handled after the others
        CHECK(happens([&] { return requests.take_save(); }));
        CHECK(requests.end_requested() == (!is_ignored || number == SIGTERM || number == SIGXCPU));
      }
      std::signal(number, before);
    }
  }
  const auto before = std::signal(SIGUSR1, SIG_IGN);
  {
    SignalRequests requests;
    send(SIGUSR1);
    CHECK(happens([&] { return requests.take_save(); }));
  }
  std::signal(SIGUSR1, before);
}

TEST_CASE("before the run begins, TERM ends the process at once with a request to requeue, and USR1 is kept") {
  for (const auto& [begins, message] : {std::pair(false, ""), std::pair(false, "bye"), std::pair(true, "bye")}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const int status = status_of([&] {
      ::dup2(ends[1], STDERR_FILENO);
      SignalRequests requests;
      requests.end_at_once(message);
      if (begins) requests.begin_run(false, false);
      send(SIGUSR1);
      bool saves = happens([&] { return requests.take_save(); });
      send(SIGTERM);
      return saves && happens([&] { return requests.end_requested(); });
    });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == (begins ? 3 : 75));
    CHECK(text_from(ends) == (begins || *message == '\0' ? "" : "bye\n"));
  }
}

TEST_CASE("TERM that arrives before the start is announced ends the process, too") {
  const int status = status_of([&] {
    SignalRequests requests;
    send(SIGTERM);
    if (!happens([&] { return requests.end_requested(); })) return false;
    requests.end_at_once("");
    return true;  // 3
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
}

TEST_CASE("a second INT ends the process only a second after the first, and INT after TERM or HUP is a first one") {
  for (int first : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(first);
    int status = 0;
    std::chrono::steady_clock::time_point begin;
    do {  // a busy machine may need longer than the second
      begin = std::chrono::steady_clock::now();
      status = status_of([&] {
        SignalRequests requests;
        return records(requests, first) && records(requests, SIGINT) && records(requests, SIGINT);
      });
    } while (std::chrono::steady_clock::now() - begin >= milliseconds(1000));
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 3);
  }
  const int status = status_of([&] {
    SignalRequests requests;
    if (!records(requests, SIGINT)) return false;
    std::this_thread::sleep_for(milliseconds(1100));
    return records(requests, SIGINT);
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGINT);
}

TEST_CASE("a signal that arrives before SignalRequests exists is kept, or takes effect when it is unblocked") {
  for (int number : {SIGUSR1, SIGUSR2}) {
    const int kept = status_of([&] {
      block_request_signals();
      send(number);
      SignalRequests requests;
      return happens([&] { return number == SIGUSR1 ? requests.take_save() : requests.take_status(); });
    });
    REQUIRE(WIFEXITED(kept));
    CHECK(WEXITSTATUS(kept) == 3);
    const int unblocked = status_of([&] {
      block_request_signals();
      send(number);
      unblock_request_signals();
      return true;
    });
    REQUIRE(WIFSIGNALED(unblocked));
    CHECK(WTERMSIG(unblocked) == number);
  }
}

TEST_CASE("computing threads have the signals blocked") {
  SignalRequests requests;
  bool all_blocked = true;
#pragma omp parallel num_threads(4) reduction(&& : all_blocked)
  {
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) all_blocked = all_blocked && ::sigismember(&blocked, number);
  }
  CHECK(all_blocked);
}
