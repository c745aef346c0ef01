#include "tests/mirror/queue.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/console.h"
#include "base/error.h"
#include "tests/mirror/space.h"

using Command = std::function<void()>;
using Polled = std::function<bool()>;
using StartPolled = std::function<Polled()>;

/// An event: how often it was recorded, and the last record its stream has reached.
struct CUevent_st {
  std::int64_t recorded = 0, reached = 0;
  double seconds = 0;         // when the last record was reached
  std::int64_t enqueued = 0;  // Queues::enqueued() at the last record
  bool freed = false;         // by the host; deleted when its last record is reached, as in CUDA
  bool captured = false;
  std::size_t captured_at = 0;  // if captured: commands captured before it
};

/// A captured command: either `run` or the polled `start`.
struct Captured {
  Command run;
  StartPolled start;
};

struct CUgraphExec_st {
  std::vector<Captured> commands;
};

struct CUstream_st {
  /// A command, or a wait for the event's `reached`-th record.
  struct Step {
    Command run;
    const CUevent_st* event = nullptr;
    std::int64_t reached = 0;
    Polled poll{};
    bool is_ready() const { return event == nullptr || event->reached >= reached; }
  };
  std::deque<Step> steps;
  bool captured = false;          // its commands are added to the captured graph
  std::size_t last_enqueued = 0;  // if captured: commands in the capture up to its last one
  std::size_t rejoined = 0;       // if captured: the origin waits for its commands before this
};

namespace mtl {

namespace {

/// All streams in the process. Only one thread uses the device; others query events.
struct Queues {
  std::vector<CUstream_st*> streams;
  std::atomic<int> device = 0;    // on which they are; other threads read it
  CUstream_st* origin = nullptr;  // where the capture started
  std::thread::id capturer;
  std::vector<Captured> capture;
  bool defers = false;
  std::uint64_t random = 0;
  mirror::QueueCounts counts;
  double simulated_seconds = 0;
  std::atomic<bool> broken = false;
  std::int64_t graphs_before_action = 0;
  std::function<void()> before_graph;  // null: none

  /// Returns how many commands and graphs were enqueued so far.
  std::int64_t enqueued() const { return counts.commands + counts.graphs; }
  /// Records that the host waited for the first `number` commands and graphs.
  void count_wait(std::int64_t number) {
    ++counts.waits;
    if (number == enqueued()) ++counts.drains;
  }

  /// Returns a random number less than `below`, using SplitMix64.
  std::uint64_t draw(std::uint64_t below) {
    std::uint64_t bits = random += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return (bits ^ (bits >> 31)) % below;
  }
};

thread_local int device_of_thread = 0;

Queues& queues() {
  static auto& only = *new Queues;
  return only;
}

/// Runs the stream's next step. Returns false if there is none or it must wait.
bool advance(CUstream_st& stream) {
  if (stream.steps.empty() || !stream.steps.front().is_ready()) return false;
  CUstream_st::Step step = std::move(stream.steps.front());
  stream.steps.pop_front();
  if (step.poll && !step.poll()) {
    stream.steps.push_front(std::move(step));
    return false;
  }
  if (step.run) step.run();
  return true;
}

/// Runs one step. Tries the streams in order, starting with a random one, until a step is ready. Returns false if none
/// is.
bool advance_any() {
  std::vector<CUstream_st*>& all = queues().streams;
  if (all.empty()) return false;
  const std::size_t first = queues().draw(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (advance(*all[(first + i) % all.size()])) return true;
  }
  return false;
}

void expect_intact(const char* what) {
  require(!queues().broken, "GPU: ", what, " failed: an illegal memory access was encountered");
}

void add_step(CUstream_st& stream, CUstream_st::Step step) {
  expect_intact("a command");
  stream.steps.push_back(std::move(step));
  if (queues().defers) {
    for (std::uint64_t steps = queues().draw(3); steps > 0; --steps) advance_any();
  } else {
    mirror::advance();
  }
}

void expect_no_capture(const char* what) {
  require(queues().origin == nullptr, "CUDA: ", what, " while a graph is captured");
}

/// Returns true if any stream waits for another process.
bool is_polled() {
  const auto& all = queues().streams;
  return std::any_of(all.begin(), all.end(),
                     [](const CUstream_st* stream) { return !stream->steps.empty() && stream->steps.front().poll; });
}

template <class Done>
void run_until(Done is_done) {
  while (!is_done()) {
    if (advance_any()) continue;
    require(is_polled(), "CUDA: streams deadlock");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

namespace mirror {

void enqueue(cuda::StreamHandle stream, Command command) {
  require(stream != nullptr, "CUDA: a command without a stream");
  if (stream->captured) {
    queues().capture.push_back({std::move(command), {}});
    stream->last_enqueued = queues().capture.size();
    return;
  }
  ++queues().counts.commands;
  add_step(*stream, {std::move(command), nullptr, 0});
}

void enqueue_polled(cuda::StreamHandle stream, StartPolled start) {
  require(stream != nullptr, "CUDA: a command without a stream");
  if (stream->captured) {
    queues().capture.push_back({{}, std::move(start)});
    stream->last_enqueued = queues().capture.size();
    return;
  }
  ++queues().counts.commands;
  add_step(*stream, {{}, nullptr, 0, start()});
}

void finish_all(const char* what) {
  expect_no_capture(what);
  queues().count_wait(queues().enqueued());
  run_until([] {
    return std::all_of(queues().streams.begin(), queues().streams.end(),
                       [](const CUstream_st* stream) { return stream->steps.empty(); });
  });
}

void advance() {
  while (advance_any()) {
  }
}

Deferral::Deferral(std::uint64_t seed) {
  queues().random = seed;
  queues().defers = true;
}
Deferral::~Deferral() { queues().defers = false; }

void simulate_time(double seconds) { queues().simulated_seconds += seconds; }

void expect_device(const char* what) {
  require(device_of_thread == queues().device.load(), "CUDA: ", what, ": the thread uses GPU ", device_of_thread,
          ", but the streams are on GPU ", queues().device.load());
}

void break_device() {
  queues().broken = true;
  for (CUstream_st* stream : queues().streams) stream->steps.clear();
}

bool is_broken() { return queues().broken; }
void repair_device() { queues().broken = false; }

void before_graph(std::int64_t number, std::function<void()> action) {
  queues().graphs_before_action = number;
  queues().before_graph = std::move(action);
}

QueueCounts queue_counts() { return queues().counts; }

}  // namespace mirror

namespace cuda {

void use_device(int ordinal) { device_of_thread = ordinal; }
int used_device() { return device_of_thread; }

StreamHandle open_stream() {
  queues().device = device_of_thread;
  queues().streams.push_back(new CUstream_st);
  return queues().streams.back();
}
void close_stream(StreamHandle stream) noexcept {
  try {
    run_until([&] { return stream->steps.empty(); });
  } catch (const std::exception&) {
    stream->steps.clear();  // a command failed that the host did not wait for
  }
  std::erase(queues().streams, stream);
  delete stream;
}
void synchronize(StreamHandle stream) {
  expect_no_capture("waiting for a stream");
  mirror::expect_device("waiting for a stream");
  expect_intact("waiting for a stream");
  queues().count_wait(queues().enqueued());
  run_until([&] { return stream->steps.empty(); });
}

void copy_from_host(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(to, bytes);
  mirror::enqueue(stream, [=] {
    mirror::Opened opened({{to, bytes}});
    std::memcpy(to, from, bytes);
  });
}
void copy_to_host(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(from, bytes);
  mirror::enqueue(stream, [=] {
    mirror::Opened opened({{from, bytes}});
    std::memcpy(to, from, bytes);
  });
}
void copy_within(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(to, bytes);
  mirror::require_inside(from, bytes);
  mirror::enqueue(stream, [=] {
    mirror::Opened opened({{to, bytes}, {from, bytes}});
    std::memcpy(to, from, bytes);
  });
}

EventHandle make_event(bool) { return new CUevent_st; }
void free_event(EventHandle event) noexcept {
  for (CUstream_st* stream : queues().streams) {  // CUDA defers the release until all records are reached
    for (CUstream_st::Step& step : stream->steps) {
      if (step.event != event) continue;
      try {
        run_until([&] { return event->reached >= step.reached; });
      } catch (const std::exception&) {
      }
      step.event = nullptr;
    }
  }
  event->freed = true;
  if (event->reached >= event->recorded) delete event;
}
void record(EventHandle event, StreamHandle stream) {
  if (stream->captured) {
    event->captured = true;
    event->captured_at = queues().capture.size();
    return;
  }
  event->captured = false;
  event->enqueued = queues().enqueued();
  const std::int64_t number = ++event->recorded;
  add_step(*stream, {[=] {
                       event->reached = number;
                       event->seconds = now_seconds() + queues().simulated_seconds;
                       if (event->freed && number == event->recorded) delete event;
                     },
                     nullptr, 0});
}
void order(EventHandle event, StreamHandle stream) {
  if (event->captured && queues().origin != nullptr) {
    stream->captured = true;  // it joins the capture
    if (stream == queues().origin) {
      for (CUstream_st* other : queues().streams) other->rejoined = std::max(other->rejoined, event->captured_at);
    }
    return;
  }
  require(!stream->captured, "CUDA: a captured stream waits for an event outside of its capture");
  add_step(*stream, {nullptr, event, event->recorded});
}
void synchronize(EventHandle event) {
  expect_no_capture("waiting for an event");
  mirror::expect_device("waiting for an event");
  expect_intact("waiting for an event");
  if (event->recorded > 0) queues().count_wait(event->enqueued);
  run_until([&] { return event->reached >= event->recorded; });
}
bool is_done(EventHandle event) {
  mirror::expect_device("querying an event");
  expect_intact("querying an event");
  // Another thread may call this. See cudaStreamCaptureModeThreadLocal.
  if (std::this_thread::get_id() == queues().capturer) expect_no_capture("querying an event");
  return event->reached >= event->recorded;
}
float milliseconds_between(EventHandle begin, EventHandle end) {
  require(is_done(begin) && is_done(end), "CUDA: the time of an event that is not reached");
  return static_cast<float>((end->seconds - begin->seconds) * 1e3);
}

void begin_capture(StreamHandle stream) {
  expect_no_capture("another capture");
  queues().origin = stream;
  queues().capturer = std::this_thread::get_id();
  queues().capture.clear();
  for (CUstream_st* each : queues().streams) {
    each->captured = each == stream;
    each->last_enqueued = each->rejoined = 0;
  }
}
GraphHandle end_capture(StreamHandle stream) {
  require(queues().origin == stream, "CUDA: the capture began on another stream");
  bool all_joined = true;
  for (CUstream_st* each : queues().streams) {
    all_joined = all_joined && (each == stream || each->last_enqueued <= each->rejoined);
  }
  auto out = std::make_unique<CUgraphExec_st>(CUgraphExec_st{std::move(queues().capture)});
  drop_capture(stream);
  require(all_joined, "CUDA: a captured stream was not joined to the one that the capture began on");
  return out.release();
}
bool is_captured(StreamHandle stream) {
  expect_intact("querying a capture");
  return stream->captured;
}
void drop_capture(StreamHandle) noexcept {
  queues().origin = nullptr;
  queues().capture.clear();
  for (CUstream_st* each : queues().streams) each->captured = false;
}
void launch(GraphHandle graph, StreamHandle stream) {
  require(!stream->captured, "CUDA: a graph is launched within a capture");
  if (--queues().graphs_before_action == 0) std::exchange(queues().before_graph, {})();
  ++queues().counts.graphs;
  for (const Captured& command : graph->commands)
    add_step(*stream, {command.run, nullptr, 0, command.start ? command.start() : Polled()});
}
void free_graph(GraphHandle graph) noexcept { delete graph; }

}  // namespace cuda

}  // namespace mtl
