// Computes when the stages of a pipeline work on the actions of their schedules, what they wait for, and the pipeline
// bubble.
//
// A stage does the events of its actions one after the other. An operation between ranks starts when its lane is free,
// and goes on beside the stage's work until the stage waits for it. Operations of several stages, as for the copies of
// a tied embedding, start when the last stage has come to them. A message is on its way as soon as it is sent, after
// those that were sent before. Receives match sends in order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "layout/schedule.h"

namespace mtl {

/// What a stage does next in an action or in the update.
struct TimedEvent {
  enum class Kind { work, copy, start, wait };  // copy: not beside work; start and wait: of operations between ranks
  Kind kind = Kind::work;
  double ms = 0;      // how long it takes; of a start: the operation; of a wait: not used
  int lane = 0;       // of all but work: index in PipelineScript::lanes
  int operation = 0;  // of a start and its wait: any number
  /// Of a start and its wait: around a ring. Each receive of a lane ends with the next of its sends.
  bool sends = false, receives = false;
  bool blocks = false;  // of a start: the stage waits for its end at once
  /// Of a wait: the start's index in the same list, or -1 if the operation started in an earlier one. Operations of a
  /// lane with the same number that outlive their list are waited for in the order of their starts.
  int started = -1;
  bool outlives = false;  // of a start: waited for in a later list, or not at all
};
using TimedEvents = std::vector<TimedEvent>;

/// A lane of every stage, for operations between its ranks, or for copies.
struct LaneTraits {
  std::string name;
  bool between_nodes = false;    // else inside a node
  std::vector<int> stages = {};  // which have operations together; empty: each stage has its own
};

/// What a stage does in a step.
struct StageScript {
  std::vector<Action> schedule;           // with communication
  std::vector<std::size_t> list_of = {};  // by action: the index of its events in `lists`; of messages: any
  std::vector<TimedEvents> lists = {};    // the last is the update's
};

struct MessageTime {
  double ms = 0;
  bool between_nodes = false;  // else inside a node
};

struct PipelineScript {
  Places places = {};
  std::vector<StageScript> stages = {};
  std::vector<LaneTraits> lanes = {};
  /// Returns the time of a message between two stages.
  std::function<MessageTime(int from, int to)> message = [](int, int) { return MessageTime(); };
  int steps = 1;  // the last is timed
};

/// How a stage's ranks spend a step. Everything adds up to the step.
struct StageTime {
  double compute = 0;
  std::map<std::string, double> waits;  // for operations and copies, by lane
  double message_wait = 0;              // for messages that are on their way
  double idle = 0;                      // for other stages to send, and after the stage's end
  int sent = 0;                         // messages to other stages

  double waiting() const;  // for links: `waits` and `message_wait`
};

struct TimeSpan {
  double start = 0, end = 0;
};

struct PipelineTimes {
  double ms = 0;
  std::vector<StageTime> stages = {};
  std::vector<std::vector<TimeSpan>> spans = {};  // [stage][action without communication]
};

/// Something that a stage's ranks do without a break.
struct StageSpan {
  enum class Kind { forward, backward, weight, update, wait, idle };  // begins as ActionKind
  Kind kind = Kind::idle;          // wait: for links; idle: for other stages, and after the stage's end
  std::size_t action = 0;          // index in the stage's schedule, whose size is the update's
  int micro_batch = 0, chunk = 0;  // of a forward, backward or weight action
  double start = 0, end = 0;
  bool computes() const { return kind < Kind::wait; }
};

/// The operations of a lane, or the messages that a stage sends, over links of one kind.
struct LinkLane {
  std::string name;                  // the lane's, or kMessages
  bool between_nodes = false;        // else inside a node
  std::vector<TimeSpan> spans = {};  // in the order of their starts; messages in two directions may overlap
};
inline constexpr const char* kMessages = "messages";

/// A step in time: from 0, when the first stage begins it, until the last one ends it.
struct Timeline {
  struct Stage {
    std::vector<StageSpan> spans;  // one after the other, without gaps
    std::vector<LinkLane> links;   // that are used, those inside the node first
  };
  double ms = 0;
  std::vector<Stage> stages;
};

/// Sets `timeline` unless it is null. Times have the unit of the script's. Throws Error(failure) on deadlock.
PipelineTimes pipeline_times(const PipelineScript& script, Timeline* timeline = nullptr);

struct ScheduleTimes {
  std::vector<std::vector<TimeSpan>> spans;  // [stage][action]
  double total = 0;                          // from the first action's start to the last action's end
  double ideal = 0;                          // time the busiest stage works; equals total if it never waits
  /// Returns waiting time divided by working time. For m micro-batches, this is (stages - 1) / m with GPipe and 1F1B.
  /// Interleaving divides it by the number of chunks.
  double bubble() const { return (total - ideal) / ideal; }
};

/// Returns when actions run if messages take no time. `stages` contains the actions of every stage, without
/// communication. `durations` are by position; empty: equal. Without weight actions, backwards include the weight
/// gradients. Throws Error(failure) on deadlock.
ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, const Places& places,
                             const std::vector<ActionDurations>& durations = {});

}  // namespace mtl
