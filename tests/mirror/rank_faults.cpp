// Faults of ranks on emulated GPUs end runs as they do on cpus.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "device/graph.h"
#include "device/memory.h"
#include "tests/error_of.h"
#include "tests/mirror/nccl.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/rank_runs.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Captures a sum in a graph. NCCL's abort does not return while the graph exists.
Graph graph_of(Communicator& group, Stream& stream, const Tensor& sum) {
  Graph out;
  out.capture(stream, [&] { group.all_reduce(stream, sum).wait(stream); });
  return out;
}

/// Trains until `fault` throws on rank 1 in iteration 4, which consists of graphs. Returns the error of the run.
std::string error_of_run(void (*fault)()) {
  SharedFolder folder;
  if (session->rank() == 0) write_data(folder / "data");
  session->barrier();
  const TrainOptions options = options_of({"tp2", 2, 2, 1, make_plain}, Device::cuda, folder, "broken");
  const std::int64_t graphs = 8 + 1;  // in a step: 8 micro-batches, and the update
  if (session->rank() == 1) mirror::before_graph(2 * graphs + 5, fault);
  return error_of([&] { run_in(new_groups(options), options); });
}

}  // namespace

// These faults end all communication in a process. Each runs in its own job, which selects the test by name.

TEST_CASE("late: a missing rank is reported, with the operation that each rank waits for" * doctest::skip()) {
  auto group = session->gpu_group(all_ranks(), "late");
  session->set_deadline(2);
  if (session->rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    return;
  }
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 64);
  const Work sum = group->all_reduce(stream, memory.tensor(DType::f32, {16}));
  const std::string message = error_of([&] { sum.join(); });
  CAPTURE(message);
  CHECK(message.find("all-reduce #1 in group 'late' (64 bytes) did not end within 2.00 s") != std::string::npos);
  CHECK(message.find("waits for all-reduce #1 in group 'late'") != std::string::npos);
  CHECK(message.find("does not wait: it computes") != std::string::npos);
  CHECK(mirror::nccl_counts().aborts > 0);
  CHECK(!group->is_intact());
  CHECK_THROWS_AS(group->all_reduce(stream, memory.tensor(DType::f32, {16})), CommunicationError);
}

TEST_CASE("stuck: a rank that does not launch its graph is reported by those that wait inside theirs" *
          doctest::skip()) {
  SharedFolder folder;
  if (session->rank() == 0) write_data(folder / "data");
  session->barrier();
  const TrainOptions options = options_of({"tp2", 2, 2, 1, make_plain}, Device::cuda, folder, "stuck");
  if (session->rank() == 1) {
    mirror::before_graph(20, [] {  // in iteration 4
      mirror::finish_all("a pause");
      std::this_thread::sleep_for(std::chrono::seconds(6));
    });
  }
  const ProcessGroups groups = new_groups(options);
  session->set_deadline(2);
  const std::string message = error_of([&] { run_in(groups, options); });
  session->set_deadline(60);
  CAPTURE(message);
  REQUIRE(!message.empty());
  if (session->rank() == 1) return;
  CHECK(contains(message, "CUDA graph #19 with operations in group 'tensor' (a part of the step) did not end within"));
  CHECK(contains(message, "waits for CUDA graph #19"));
  CHECK(message.find("does not wait: it computes") != std::string::npos);
}

TEST_CASE("failed: a failed rank ends the waits of the other ranks' hosts for their GPUs" * doctest::skip()) {
  auto group = session->gpu_group(all_ranks(), "failed");
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 64);
  const Tensor sum = memory.tensor(DType::f32, {16});
  const Graph graph = graph_of(*group, stream, sum);
  const auto launch = [&] { group->supervise(stream, [&] { graph.launch(stream); }); };
  launch();
  stream.synchronize();
  session->barrier();
  if (session->rank() == 1) {
    session->control_group()->interrupt_others();
    CHECK(group->is_intact());  // the graph's launch is done
    session->barrier();
    return;
  }
  CHECK(group->is_intact());
  try {
    group->all_reduce(stream, sum).wait(stream);
    launch();
    stream.synchronize();
    group->all_reduce(stream, sum);
    FAIL("a rank failed");
  } catch (const Interrupted&) {
  }
  CHECK(mirror::nccl_counts().aborts > 0);
  CHECK(!group->is_intact());
  session->barrier();
}

TEST_CASE("agree: a rank that fails takes part in the exchange for which others already wait" * doctest::skip()) {
  auto group = session->gpu_group(all_ranks(), "agree");
  if (session->rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    session->control_group()->interrupt_others();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  Stream stream(Device::cpu);
  float sum = 1;
  session->control_group()->all_reduce(stream, Tensor(&sum, DType::f32, {1})).join();
  CHECK(sum == float(session->world()));
}

TEST_CASE("fault: an error of NCCL ends the job with its text" * doctest::skip()) {
  auto group = session->gpu_group(all_ranks(), "fault");
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 64);
  const Graph graph = graph_of(*group, stream, memory.tensor(DType::f32, {16}));
  session->barrier();
  mirror::simulate_nccl_fault("remote process exited");
  std::string message;
  for (int tries = 0; message.empty() && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    try {
      group->all_reduce(stream, memory.tensor(DType::f32, {16})).wait(stream);
    } catch (const CommunicationError& error) {
      message = error.what();
    }
  }
  CHECK(message == "NCCL: group 'fault': remote process exited");
}

TEST_CASE("broken: an error on one rank in a step of graphs ends the run on all ranks" * doctest::skip()) {
  const std::string message = error_of_run([] { fail(Exit::failure, "a surprise"); });
  CHECK(message == "on rank 1: a surprise");
  CHECK(mirror::nccl_counts().aborts > 0);
}

TEST_CASE("illegal: a fault of one rank's GPU ends the run on all ranks" * doctest::skip()) {
  const std::string message = error_of_run([] {
    mirror::break_device();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the progress thread notices it first
  });
  CHECK(message == "on rank 1: GPU: a command failed: an illegal memory access was encountered");
}
