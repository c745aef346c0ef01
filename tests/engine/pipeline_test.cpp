// Pipelines: when a stage starts its receives and waits for its sends.
#include "engine/pipeline.h"

#include <doctest/doctest.h>

#include "comm/groups.h"
#include "layout/schedule.h"
#include "optim/param_memory.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

/// A stage's FLOP count at each of these events:
/// - `started`: it started a receive
/// - `waited`: it waited for a receive
/// - `waited_output`: it waited for a send to the next stage
/// - `waited_gradient`: it waited for a gradient from the next stage
struct Journal {
  std::vector<double> started, waited, waited_output, waited_gradient;
};

/// Work that records the current FLOP count in `notes` when it is joined.
class RecordedWork final : public Work::Operation {
 public:
  RecordedWork(bool is_done, std::vector<std::vector<double>*> notes, const Stream& stream)
      : is_done_(is_done), notes_(std::move(notes)), stream_(stream) {}
  bool done() override { return is_done_; }
  void join() override {
    for (std::vector<double>* note : notes_) note->push_back(stream_.counters().flops);
  }

 private:
  bool is_done_;
  std::vector<std::vector<double>*> notes_;
  const Stream& stream_;
};

class RecordingCommunicator final : public MetaCommunicator {
 public:
  RecordingCommunicator(int rank, int size, Journal& journal) : MetaCommunicator(rank, size), journal_(journal) {}

 private:
  Work start(Stream& stream, const Transfer& transfer) override {
    if (!transfer.is_message()) return MetaCommunicator::start(stream, transfer);
    const bool sends = transfer.kind == OperationKind::send;
    std::vector<std::vector<double>*> notes;
    if (!sends) {
      journal_.started.push_back(stream.counters().flops);
      notes.push_back(&journal_.waited);
    }
    if (transfer.peer == rank() + 1) notes.push_back(sends ? &journal_.waited_output : &journal_.waited_gradient);
    return Work(std::make_shared<RecordedWork>(sends, std::move(notes), stream));
  }

  Journal& journal_;
};

GptConfig piped_gpt() {
  return test::gpt_of_size({.vocab = 40, .layers = 4, .hidden = 16, .heads = 2, .positions = 8});
}

/// Returns the run shape for one of four stages.
RunShape stage_shape(int stage, ScheduleKind kind) {
  RunShape shape;
  shape.seq_length = 8;
  shape.micro_batches = 6;
  shape.padded_vocab = 48;
  shape.layout.grid = RankGrid({.pipeline = 4});
  shape.layout.rank = stage;
  shape.layout.schedule = kind;
  return shape;
}

ProcessGroups groups_of(const RunShape& shape, Journal& journal) {
  const int stage = shape.layout.rank;
  return {shape.layout, [stage, &journal](const std::vector<int>& ranks, const std::string&) {
            auto place = std::find(ranks.begin(), ranks.end(), stage) - ranks.begin();
            return std::make_shared<RecordingCommunicator>(static_cast<int>(place), static_cast<int>(ranks.size()),
                                                           journal);
          }};
}

/// Runs a step on the meta device as one of four stages; returns the journal.
Journal journal_of(int stage, ScheduleKind kind) {
  const RunShape shape = stage_shape(stage, kind);
  Journal journal;
  ProcessGroups groups = groups_of(shape, journal);
  Stage own = make_stage(piped_gpt(), {}, shape);
  ParamMemory params(
      Device::meta, kPrecisionFp32, single_rule<AdamW>(), [&](const ParamVisitor& visit) { own.params(visit); },
      shape.layout);
  Stream stream(Device::meta);
  MemoryPlan plan = plan_training(piped_gpt(), {}, shape);
  Pipeline pipeline(own, stream, groups, rank_schedule(shape.layout, 6), plan);
  BatchBuffers buffers(Device::meta, shape);
  params.begin_step();
  pipeline.train(buffers);
  return journal;
}

}  // namespace

TEST_CASE("each receive but the first starts before the computation ahead of its use") {
  for (int stage = 0; stage < 4; ++stage) {
    for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward}) {
      CAPTURE(stage);
      CAPTURE(static_cast<int>(kind));
      const Journal journal = journal_of(stage, kind);
      CHECK(journal.started.size() == static_cast<std::size_t>((stage > 0 ? 6 : 0) + (stage < 3 ? 6 : 0)));
      REQUIRE(journal.waited.size() == journal.started.size());
      for (std::size_t i = 1; i < journal.started.size(); ++i) {
        CHECK(journal.waited[i] > journal.started[i]);       // the receive overlaps computation
        CHECK(journal.waited[i - 1] <= journal.started[i]);  // one receive at a time, because each needs a buffer
      }
    }
  }
}

TEST_CASE("an output is sent before the backward that releases its memory") {
  for (int stage = 0; stage < 3; ++stage) {
    for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward}) {
      CAPTURE(stage);
      CAPTURE(static_cast<int>(kind));
      const Journal journal = journal_of(stage, kind);
      CHECK(journal.waited_gradient.size() == 6);
      CHECK(journal.waited_output == journal.waited_gradient);
    }
  }
}

TEST_CASE("the slots are one allocation, and the message buffers another") {
  const RunShape shape = stage_shape(1, ScheduleKind::one_forward_one_backward);
  Journal journal;
  ProcessGroups groups = groups_of(shape, journal);
  Stage own = make_stage(piped_gpt(), {}, shape);
  Stream stream(Device::cpu);
  const MemoryPlan plan = plan_training(piped_gpt(), {}, shape);
  REQUIRE(plan.entry(Category::slots).count == 3);
  REQUIRE(plan.entry(Category::messages).count == 6);  // four inputs, two gradients
  const BufferUse before = buffer_use();
  Pipeline pipeline(own, stream, groups, rank_schedule(shape.layout, 6), plan);
  CHECK(buffer_use().made - before.made == 3);  // slots, messages and scratch
  CHECK(buffer_use().bytes - before.bytes ==
        plan.bytes(Category::slots) + plan.bytes(Category::messages) + plan.bytes(Category::scratch));
}
