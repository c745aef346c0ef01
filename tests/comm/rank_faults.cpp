// A job that fails on request: the ranks compute sums until the chosen rank causes a fault in iteration 3. Run by
// tests/cli/ranks_faults_test.sh.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/write_activity.h"
#include "cli/train/ranks.h"
#include "comm/agreement.h"
#include "comm/rank_outcome.h"
#include "comm/text_exchange.h"

using namespace mtl;

namespace {

bool stops_in_finalize = false;

}  // namespace

/// Replaces MPI's function so that the process can be stopped there.
extern "C" int PMPI_Finalize();
extern "C" int MPI_Finalize() {
  if (stops_in_finalize) std::raise(SIGSTOP);
  return PMPI_Finalize();
}

namespace {

struct Options {
  std::string fault = "none";
  std::int64_t who = 1;  // the chosen rank
  std::int64_t iterations = 6;
  double deadline = 2;  // seconds
};

/// Causes a fault in the chosen rank.
void cause_fault(const std::string& fault, Communicator& group, Stream& stream) {
  float x = 0;
  Tensor one(&x, DType::f32, {1});
  std::vector<float> more(5000);
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "write") {
    const WriteCall call("a file");
    std::this_thread::sleep_for(std::chrono::milliseconds(7700));
    std::raise(SIGSTOP);
  }
  if (fault == "broadcast") group.broadcast(stream, one, group.rank()).join();  // no other rank joins
  if (fault == "receive") group.receive(stream, one, 0, Channel::activations).join();
  if (fault == "size") group.all_reduce(stream, Tensor(more.data(), DType::f32, {300})).join();
  if (fault == "data") fail(Exit::bad_data, "x.idx: broken");
  if (fault == "bug") throw std::runtime_error("surprise");
}

/// Starts a sum on all ranks. If `fails`, throws while the sum is in flight, after freeing its memory.
void drop_sum(Communicator& group, Stream& stream, bool fails) {
  {
    std::vector<float> data(1 << 21, 1);
    Work sum = group.all_reduce(stream, Tensor(data.data(), DType::f32, {1 << 21}));
    if (!fails) return sum.join();
    group.progress();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the other ranks send the data this rank requested
  fail(Exit::bad_data, "x.idx: broken in the middle");
}

/// Fails on one rank while a large sum is in flight. All ranks agree on the error, and can still exchange strings
/// afterwards.
[[noreturn]] void fail_together(const ProcessGroups& groups, Stream& stream, bool fails) {
  std::exception_ptr own_error;
  std::vector<float> large(1 << 22, 1), small(10, 1);
  try {
    Work first = groups.over(Axis::data).all_reduce(stream, Tensor(large.data(), DType::f32, {1 << 22}));
    groups.over(Axis::data).progress();
    if (fails) fail(Exit::bad_data, "x.idx: broken");
    first.join();
    groups.over(Axis::data).all_reduce(stream, Tensor(small.data(), DType::f32, {10})).join();
  } catch (const Interrupted&) {
  } catch (...) {
    own_error = std::current_exception();
    groups.world().interrupt_others();
  }
  try {
    throw_first_error(groups.world(), own_error);
  } catch (const AgreedError&) {
    std::string ranks;
    for (const std::string& text : gather_texts(groups.world(), cat(groups.world().rank(), " "))) ranks += text;
    if (groups.world().rank() == 0) print_out(cat("agreed: ", ranks, "\n"));
    throw;
  }
}

Exit count_together(const Options& options, Ranks& ranks, Console& console) {
  bool chosen = ranks.launched().rank == options.who;
  stops_in_finalize = chosen && options.fault == "end";
  if (chosen && options.fault == "start") std::raise(SIGSTOP);
  if (chosen && options.fault == "absent") return Exit::ok;
  ProcessGroups groups = ranks.connect(options.deadline, [](MpiSession& session) {
    return Ranks::Groups{{.grid = RankGrid({.data = session.world()}), .rank = session.rank()}};
  });
  MpiSession* session = ranks.session();
  Stream stream(Device::cpu);
  OperationProgress progress{.iteration = 0};
  console.info("counting");
  if (chosen) console.warn("seldom heard");
  ReportedProgress reported(session, progress);
  if (session != nullptr) {
    session->warn_with([&](const std::string& what) { console.warn(what); });
    check_same(groups.world(), session->hosts(),
               {{"program", "1"}, {"flags", chosen && options.fault == "agree" ? "a\n--lr 2" : "a\n--lr 1"}});
  }
  for (std::int64_t iteration = 1; iteration <= options.iterations; ++iteration) {
    progress.iteration = iteration;
    if (chosen && iteration == 3) cause_fault(options.fault, groups.over(Axis::data), stream);
    if (options.fault == "drop" && iteration == 3) drop_sum(groups.over(Axis::data), stream, chosen);
    if (options.fault == "together" && iteration == 3) fail_together(groups, stream, chosen);
    float sum = 1;
    groups.over(Axis::data).all_reduce(stream, Tensor(&sum, DType::f32, {1})).join();
    if (ranks.is_rank_zero()) print_out(cat("iteration ", iteration, " sum ", static_cast<int>(sum), "\n"));
    std::fflush(stdout);
  }
  return options.fault == "requeue" ? Exit::requeue : Exit::ok;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Ranks ranks("rank-faults");
  Flags flags("rank-faults", "counts, and fails on request");
  flags.add("--fault", &options.fault, "NAME", "the fault to cause");
  flags.add("--who", &options.who, "RANK", "the rank that causes it");
  flags.add("--iterations", &options.iterations, "N", "the number of sums");
  flags.add("--deadline", &options.deadline, "S", "seconds to wait for other ranks");
  flags.check([&] {
    if (options.fault == "flags" && ranks.launched().rank >= options.who) flags.problem("--fault", "is wrong here");
  });
  return run_ranks(flags, argc, argv, ranks, [&](Console& console) { return count_together(options, ranks, console); });
}
